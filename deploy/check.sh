#!/bin/sh
# Succeeds if attnviz on this machine answers /readyz with 200. The health check of the container calls it.
set -eu
base=$(echo "${STREAMLIT_SERVER_BASE_URL_PATH:-}" | sed 's:^/*:/:; s:/*$::')
port=${STREAMLIT_SERVER_PORT:-8501}
[ -z "${SPACE_HOST:-}" ] || port=${STREAMLIT_SERVER_PORT:-7860}
exec "$(dirname "$0")/../.venv/bin/python" -c \
    'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=4)' "http://127.0.0.1:$port$base/readyz"
