#!/bin/sh
# Starts attnviz where deploy/build.sh has installed it. Options are those of the command attnviz; STREAMLIT_SERVER_…
# and ATTNVIZ_… variables are its settings.
set -eu
cd "$(dirname "$0")/.."
export ATTNVIZ_CACHE="${ATTNVIZ_CACHE:-$PWD/cache}" # of deploy/build.sh
export STREAMLIT_LOGGER_HIDE_WELCOME_MESSAGE=true # for which Streamlit would ask another host for this one's address
if [ -n "${SPACE_HOST:-}" ]; then # a Space of Hugging Face, which says at which name people open it
    export STREAMLIT_SERVER_PORT="${STREAMLIT_SERVER_PORT:-7860}"
    export STREAMLIT_SERVER_ALLOWED_HOSTS="${STREAMLIT_SERVER_ALLOWED_HOSTS:-$SPACE_HOST}"
    export ATTNVIZ_HOSTED=1 ATTNVIZ_TLS=1 ATTNVIZ_EMBED="${ATTNVIZ_EMBED:-https://huggingface.co}"
    export ATTNVIZ_PROXY="${ATTNVIZ_PROXY:-10.0.0.0/8}" # its proxies, which name the address of each visitor
fi
exec .venv/bin/python -m attnviz --no-browser "$@"
