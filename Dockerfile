FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy proxy
RUN pip install --no-cache-dir --prefix=/install .

FROM python:3.12-slim
COPY --from=build /install /usr/local
# The store and its secret are in /data/compaction-proxy; a mounted volume must be writable for this user.
RUN useradd --system --uid 10001 --no-create-home --home-dir /data proxy && install -d -o proxy -m 0700 /data
ENV PYTHONUNBUFFERED=1 XDG_DATA_HOME=/data
USER 10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8080, timeout=3); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["compaction-proxy"]
CMD ["serve", "--host", "0.0.0.0"]
