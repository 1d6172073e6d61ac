# The image of afflux: `docker build --tag afflux:0.1.0 .`
#
# Both stages have the same Python in the same folder, so that the environment built in the first
# one works in the second. uv.lock has the versions and hashes of all packages.

ARG PYTHON=3.13.12-slim-trixie
ARG RUST=1.95.0-slim-trixie

FROM rust:${RUST} AS rust

FROM python:${PYTHON} AS build
# rustc needs the C compiler to link. Debian's version is used and not pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
RUN python -m pip install --no-cache-dir --disable-pip-version-check uv==0.13.7
ENV RUSTUP_HOME=/usr/local/rustup \
    CARGO_HOME=/usr/local/cargo \
    PATH=/usr/local/cargo/bin:$PATH \
    UV_PROJECT_ENVIRONMENT=/opt/afflux \
    UV_PYTHON_DOWNLOADS=never \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_COMPILE_BYTECODE=1
WORKDIR /src
# Third-party packages first: they change seldom, so their layer is cached.
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-install-project
COPY Cargo.toml Cargo.lock README.md LICENSE ./
COPY crates crates
COPY src src
RUN uv sync --locked --no-editable && /opt/afflux/bin/afflux --version

FROM python:${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="afflux" \
      org.opencontainers.image.description="A scheduler for Kubernetes that places every waiting group of pods in one optimisation" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/afflux /opt/afflux
# Bytecode was compiled above: nothing is written at run time, so the root may be read-only.
ENV PATH=/opt/afflux/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# PostgreSQL, which an embedded ledger starts, needs a user with a name.
RUN echo 'afflux:x:65532:65532:afflux:/:/usr/sbin/nologin' >> /etc/passwd
WORKDIR /
USER 65532:65532
EXPOSE 10251 9090
ENTRYPOINT ["afflux"]
CMD ["run"]
