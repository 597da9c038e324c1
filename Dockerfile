# docker build -t hyrecall .     What it serves, and how to run it: docs/service.md, "In a container".
FROM docker.io/library/python:3.13-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends binutils g++ patchelf && rm -rf /var/lib/apt/lists/*
COPY requirements/service.txt /src/requirements/service.txt
RUN python3 -m venv /opt/hyrecall \
    && /opt/hyrecall/bin/pip install --no-cache-dir --no-compile --require-hashes -r /src/requirements/service.txt
COPY . /src
# The demo shows that nothing is missing, and leaves compiled what a start imports.
RUN HYRECALL_CUDA=OFF /opt/hyrecall/bin/pip install --no-cache-dir --no-compile --no-deps /src \
    && /src/.ci/slim /opt/hyrecall \
    && /opt/hyrecall/bin/hyrecall demo \
    && /opt/hyrecall/bin/python -c 'import hyrecall.cli.memory_options, hyrecall.serve.app, hyrecall.serve.mcp.server, uvicorn.lifespan.on, \
    uvicorn.protocols.http.h11_impl'

FROM docker.io/library/python:3.13-slim
COPY --from=build /opt/hyrecall /opt/hyrecall
RUN install -d -o 65532 -g 65532 -m 700 /data
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HYRECALL_PATH=/data/agent.mem
USER 65532:65532
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/opt/hyrecall/bin/python", "-c", \
    "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8765, timeout=3); c.request('GET', '/healthz'); exit(c.getresponse().status != 200)"]
ENTRYPOINT ["/opt/hyrecall/bin/hyrecall"]
CMD ["serve", "/data/agent.mem", "--host", "0.0.0.0", "--tokens", "/data/tokens.json"]
