# The project, installed as `make install` does: for a machine alone, or the nodes of a Kubernetes cluster.
#   docker build -t rldf-ray .                            # no GPU
#   docker build -t rldf-ray --build-arg HARDWARE=gpu .   # CUDA comes with the packages; the host has the driver
#   docker run --rm -it --shm-size 8g -v $PWD/runs:/home/rldf/runs rldf-ray run smoke --out runs/smoke
ARG PYTHON=3.11
FROM python:${PYTHON}-slim-bookworm

# make and a compiler are what DeepSpeed is built with; KubeRay asks nodes whether they live with wget.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential git wget \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 rldf

USER 1000
WORKDIR /home/rldf/rldf-ray
ARG HARDWARE=cpu
# What is installed changes seldom, the code often: the packages are a layer of their own.
COPY --chown=1000 Makefile pyproject.toml README.md LICENSE ./
COPY --chown=1000 constraints constraints
RUN mkdir -p rldf_ray && touch rldf_ray/__init__.py && make install HARDWARE=${HARDWARE} && rm -rf ~/.cache/pip
COPY --chown=1000 . .

ENV PATH=/home/rldf/rldf-ray/.venv/bin:${PATH}
WORKDIR /home/rldf
ENTRYPOINT ["rldf"]
CMD ["--help"]
