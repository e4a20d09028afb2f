# OpenANE on any machine:
#     docker build -t openane .
#     docker run --rm -v "$PWD:/work" openane compile model.onnx -o model.hwx
FROM python:3.13-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/openane-*.whl)[onnx,cli,fast]" && rm -r /wheels \
    && useradd --create-home ane
USER ane
WORKDIR /work
ENTRYPOINT ["ane"]
CMD ["--help"]
