#!/bin/sh
# Writes what is committed in this checkout as the repository of a Docker Space of Hugging Face, to a new folder.
set -eu
from=$(cd "$(dirname "$0")/../.." && pwd)
to=${1:?Say to which new folder the Space is written.}
mkdir "$to"
cd "$from"
git archive HEAD $(sed -n 's/^!//p' deploy/Dockerfile.dockerignore) | tar -x -C "$to"
mv "$to/deploy/space/README.md" "$to/deploy/Dockerfile" "$to"
mv "$to/deploy/Dockerfile.dockerignore" "$to/.dockerignore"
