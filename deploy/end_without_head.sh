#!/usr/bin/env bash
# Ends this worker after so many minutes without Ray (default: 10). A worker's raylet ends a minute after the head is
# lost; without this, the machine would run, and be billed, until somebody notices. The cluster files start it.
#
#   end_without_head.sh [MINUTES]
#
# For tests: LOOK_S, the seconds between two looks; RAYLET, the name of the process; END, the command that ends the machine.
set -u
minutes=${1:-10}
exec 9>"${TMPDIR:-/tmp}/end_without_head.lock"
flock -n 9 || exit 0 # one is enough
without=0
while sleep "${LOOK_S:-60}" 9>&-; do
  if pgrep -x "${RAYLET:-raylet}" >/dev/null; then without=0; else without=$((without + 1)); fi
  if [ "$without" -ge "$minutes" ]; then
    ${END:-sudo shutdown -h now} 9>&-
    exit
  fi
done
