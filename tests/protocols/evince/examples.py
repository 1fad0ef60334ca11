"""The paper's worked example, and wild distributions."""

from hypothesis import strategies as st

# round: A, B, WD, KL, JSD, H_A, H_B, CE
GOLDEN = {
    "1": ((5, 15, 50, 25, 5), (10, 10, 25, 35, 20), 0.45, 0.316388, 0.081196, 1.843, 2.159, 2.159),
    "2": ((7, 13, 40, 30, 10), (5, 10, 20, 40, 25), 0.47, 0.226482, 0.056259, 2.033, 2.041, 2.260),
    "3": ((5, 10, 35, 35, 15), (5, 10, 30, 35, 20), 0.10, 0.015582, 0.003974, 2.019, 2.064, 2.035),
    "end": ((5, 10, 30, 35, 20), (5, 10, 30, 35, 20), 0.0, 0.0, 0.0, 2.064, 2.064, 2.064),
}


def distributions(n: int = 5):
    weights = st.lists(st.integers(0, 50), min_size=n, max_size=n).filter(any)
    return weights.map(lambda w: tuple(x / sum(w) for x in w))
