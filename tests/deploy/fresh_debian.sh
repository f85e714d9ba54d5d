#!/bin/bash
# Runs the steps of deploy/Dockerfile in a fresh Debian root: deploy/build.sh, then deploy/start.sh and deploy/check.sh
# as a user of no rights on a read-only file system. Needs root, mmdebstrap and the network; `make deploy-test` calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${IN_NAMESPACE:-}" ]; then # in which mounts and processes end with this script
    folder=$(mktemp -d)
    trap 'rm -rf --one-file-system "$folder"' EXIT
    IN_NAMESPACE=1 unshare --mount --pid --fork --kill-child "$0" "$folder/root"
    exit
fi
root=$1
mkdir "$root"

# This machine's sources, certificates and package indexes.
for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do [ ! -f "$sources" ] || break; done
mmdebstrap --quiet --mode=root --variant=minbase bookworm "$root" - <"$sources"
rm -f "$root/etc/apt/sources.list" "$root"/etc/apt/sources.list.d/*
cp "$sources" "$root/etc/apt/${sources#/etc/apt/}"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir -p "$root/tmp/pip"
cp /etc/ssl/certs/ca-certificates.crt "$root/tmp/pip/"
python3 -m pip config list | sed -n "s/^global\.\([a-z-]*\)='\(.*\)'$/\1 = \2/p" | grep -v '^cert' >"$root/tmp/pip/options" || true
{ echo "[global]"; cat "$root/tmp/pip/options"; echo "cert = /tmp/pip/ca-certificates.crt"; } >"$root/tmp/pip/pip.conf"
for folder in $(grep -oE '(^| |file://)/[^ ]+' "$root/tmp/pip/options" | sed 's: *\(file\://\)*::'); do
    folder=$(echo "$folder" | cut -d/ -f1-3) # /opt/wheels of /opt/wheels/simple
    mkdir -p "$root$folder"
    mountpoint -q "$root$folder" || mount --bind "$folder" "$root$folder"
done
mount -t proc proc "$root/proc"
mkdir "$root/source"
git ls-files -z | xargs -0 tar c | tar x -C "$root/source"

echo "== deploy/build.sh"
time env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin PIP_CONFIG_FILE=/tmp/pip/pip.conf PIP_DEFAULT_TIMEOUT=180 \
    chroot "$root" /source/deploy/build.sh /opt/attnviz
du -sh "$root/opt/attnviz"

echo "== deploy/start.sh, on a read-only file system"
rm -rf "$root/source" "$root/tmp/pip"
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
inside() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp HF_HUB_OFFLINE=1 ATTNVIZ_HOSTED=1 STREAMLIT_SERVER_ADDRESS=127.0.0.1 \
        STREAMLIT_SERVER_PORT=18765 STREAMLIT_SERVER_ALLOWED_HOSTS="attn.example.org 127.0.0.1" \
        STREAMLIT_SERVER_BASE_URL_PATH=attn \
        chroot "$root" setpriv --reuid attnviz --regid attnviz --clear-groups --no-new-privs --inh-caps=-all "$@"
}
if inside touch /opt/attnviz/x 2>/dev/null; then echo "The file system can be written." >&2; exit 1; fi
inside /opt/attnviz/deploy/start.sh &
for _ in $(seq 120); do
    if inside /opt/attnviz/deploy/check.sh 2>/dev/null; then ready=1; break; fi
    sleep 1
done
[ -n "${ready:-}" ] || { echo "It did not become ready in two minutes." >&2; exit 1; }
inside python3 - <<'PYTHON'
from urllib.request import Request, urlopen
page = urlopen(Request("http://127.0.0.1:18765/attn/masks", headers={"Host": "attn.example.org"}))
assert page.status == 200 and b"/attn/vendor/plotly-" in page.read()
PYTHON
kill %1
wait %1 || true
echo "== a fresh Debian runs it"
