"""What becomes of statements: filters, figures, a card, and the way out of and into a run."""

from rldf_ray.errors import UserError


class DatasetError(UserError):
    """Data cannot be read or handed on; the message names file, row and field, and what to do."""
