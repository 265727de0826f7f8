#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make-peer.sh DIR: LMCache 0.5.6 for the CPU in a virtual environment of its own. Takes about a minute and 1.5 GB.
set -eu
dir=$1
rm -rf "$dir"
python3 -m venv "$dir"
pip () { "$dir/bin/python" -m pip --disable-pip-version-check -q "$@"; }
pip install torch==2.13.0
pip install --no-deps lmcache==0.5.6
pip install aiofile aiofiles blake3 aiohttp awscrt cryptography fastapi httpx 'huggingface_hub>=1.5.0' msgspec 'numpy<=2.2.6' numba nvtx \
  'opentelemetry-api<=1.40.0' 'opentelemetry-sdk<=1.40.0' opentelemetry-exporter-otlp 'opentelemetry-exporter-prometheus<=0.61b0' \
  'prometheus_client<=0.24.1' psutil py-cpuinfo pyyaml pyzmq 'protobuf<7,>=6.31.1' redis safetensors sortedcontainers uvicorn httptools \
  cachetools
