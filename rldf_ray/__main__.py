"""`python -m rldf_ray`: the same as `rldf`."""

from rldf_ray.cli import main

if __name__ == "__main__":
    main()
