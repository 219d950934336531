# An image with remine and the versions of constraints.txt, for clusters whose machines start from images (KubeRay).
# It holds no weights, tokens or data. From the repository root:
#
#   docker build -t REGISTRY/remine:0.1.0 .
#   docker push REGISTRY/remine:0.1.0
#
# Then name it in deploy/kubernetes/*.yaml in place of both rayproject images. Its pods install nothing, and start in
# seconds instead of minutes. PyTorch brings its own CUDA libraries; the node's driver must be 580 or newer.
# For engine=vllm: --build-arg EXTRAS=mining,models,vllm,diffusion,smolvlm. vLLM names a different torch; such an image has
# the versions of constraints-vllm.txt. For image models and SmolVLM without it: EXTRAS=all,diffusion,smolvlm.
FROM python:3.11.13-slim-bookworm AS build
ARG EXTRAS=all
RUN apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN python -m venv /home/ray/env
WORKDIR /src
COPY pyproject.toml setup.py constraints.txt constraints-vllm.txt README.md LICENSE ./
COPY actors actors
COPY conf conf
COPY jobs jobs
# boto3 is for a working_dir in S3. pip's cache would double the layer.
RUN case ",$EXTRAS," in \
    *,vllm,*) /home/ray/env/bin/pip install -q --no-cache-dir -c constraints-vllm.txt ".[$EXTRAS]" boto3 ;; \
    *) /home/ray/env/bin/pip install -q --no-cache-dir -c constraints.txt ".[$EXTRAS]" boto3 ;; \
    esac

FROM python:3.11.13-slim-bookworm
# The operator's probes call wget, `ray up` and submitted jobs call rsync and ps. Triton compiles kernels with gcc.
RUN apt-get update -q && apt-get install -y -q --no-install-recommends wget rsync procps gcc libc6-dev && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 ray && mkdir /cache && chown ray:ray /cache
COPY --from=build --chown=ray:ray /home/ray/env /home/ray/env
# The pods of deploy/kubernetes run login shells, for which Debian's /etc/profile sets PATH anew.
RUN echo 'PATH=/home/ray/env/bin:$PATH' > /etc/profile.d/remine.sh
ENV PATH=/home/ray/env/bin:$PATH HF_HOME=/cache/huggingface REMINE_CACHE=/cache/remine PYTHONUNBUFFERED=1
USER ray
WORKDIR /home/ray
CMD ["remine"]
