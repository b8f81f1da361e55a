# syntax=docker/dockerfile:1
# The service in one image: `docker build -t bots:local .`, then `docker run bots:local --help`. See docs/deployment.md.

# The Python that the tests pass with.
FROM python:3.11-slim AS build
WORKDIR /source
RUN python -m venv /opt/bots
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY client client
COPY migrations migrations
COPY service service
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/bots/bin/pip wheel --no-deps --wheel-dir /wheels ./client . \
    && /opt/bots/bin/pip install --no-compile --constraint constraints.txt \
        /wheels/bots_client-*.whl /wheels/bots_service-*.whl
# What the service never loads goes: tests, headers, pip, all of scipy but `special`, pyarrow's clients of Flight and S3.
RUN /opt/bots/bin/pip uninstall --yes pip setuptools \
    && find /opt/bots/lib/python3*/site-packages -depth -regextype posix-extended \( \
        -regex '.*/(numpy|pyarrow|scipy)/(.*/)?(tests|include)' \
        -o -regex '.*/scipy/[a-z]+' ! -name special \
        -o -regex '.*/pyarrow/[^/]*(flight|s3)[^/]*\.so[^/]*' \
        -o -regex '.*\.(a|h|pxd|pxi|pyx)' \) -exec rm -r {} + \
    && /opt/bots/bin/python -m compileall -q /opt/bots/lib

FROM python:3.11-slim
LABEL org.opencontainers.image.title="BOTS selector" \
      org.opencontainers.image.description="BOTS picks the RL tasks your model can learn from right now." \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/bots /opt/bots
# A number, so that Kubernetes can see that it is not root. /data is made here for its owner: a new volume takes it over.
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin bots \
    && install --directory --owner=10001 --group=10001 /data
USER 10001:10001
WORKDIR /data
# The root file system may be read-only: the service writes to /data (SQLite) alone.
# Beyond loopback it wants BOTS_ADMIN_KEY, or BOTS_INSECURE=true in a network that guards it; without, it refuses to start.
ENV PATH=/opt/bots/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    BOTS_HOST=0.0.0.0 \
    BOTS_PORT=8765 \
    BOTS_DATA_DIR=/data \
    BOTS_LOG_FORMAT=json
VOLUME /data
EXPOSE 8765
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-c", "import http.client, os, sys; probe = http.client.HTTPConnection('127.0.0.1', int(os.environ['BOTS_PORT']), timeout=4); probe.request('GET', '/livez'); sys.exit(probe.getresponse().status != 200)"]
ENTRYPOINT ["bots"]
CMD ["serve"]
