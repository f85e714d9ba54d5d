#!/bin/sh
# Installs attnviz from the checkout that this script is in to a folder, on Debian 12 as root. The Dockerfile calls it.
set -eu
from=$(cd "$(dirname "$0")/.." && pwd)
to=${1:-/opt/attnviz}
export DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

"$from/.ci/debian" --no-install-recommends python3 python3-venv ca-certificates
getent passwd attnviz >/dev/null || useradd --system --home-dir /tmp --shell /usr/sbin/nologin attnviz
classes=/var/lib/attnviz # of live classes
mkdir -p "$classes" && chown attnviz: "$classes" && chmod 700 "$classes"

mkdir -p "$to"
python3 -m venv "$to/.venv"
install() { "$to/.venv/bin/pip" install --quiet --no-deps --require-hashes "$@"; }
# As in the Makefile: PyTorch's CPU build where pip finds it; PyPI's, which on Linux needs CUDA, where it does not.
install -r "$from/requirements/cpu.txt" || echo "PyTorch's CPU build was not found: PyPI's is much larger." >&2
install -r "$from/requirements/app.txt" -r "$from/requirements/models.txt"
if "$to/.venv/bin/pip" show torch | grep -q cuda-toolkit; then install -r "$from/requirements/cuda.txt"; fi

for part in app.py attnviz pages assets .streamlit deploy; do cp -R "$from/$part" "$to"; done
"$to/.venv/bin/python" -m compileall -q "$to/attnviz" "$to/pages" # nothing is written there later
# SmolLM2 is converted here, since nothing is written later, and replicas on one machine share its memory: 540 MB.
(cd "$to" && ATTNVIZ_CACHE="$to/cache" .venv/bin/python -c 'from attnviz.models.smollm2 import smollm2; smollm2.inspect()')
chmod -R go=rX "$to"
