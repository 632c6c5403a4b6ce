#!/usr/bin/env bash
# usage: run_clang_tidy.sh REPORT CONFIG PLUGIN SOURCE OPTION...
# Prints what clang-tidy finds in SOURCE. REPORT is written if that is nothing.
set -euo pipefail
report=$1 config=$2 plugin=$3 source=$4
shift 4
# The paths in its findings are those of the repository, not of Bazel's folder.
if ! findings=$(clang-tidy --quiet --config-file="$config" \
  --load="$PWD/$plugin" --checks=own-scope "$source" -- \
  "$@" 2>&1); then
  printf '%s\n' "$findings" | sed "s,$PWD/,,; /^[0-9]* warnings\?/d" >&2
  exit 1
fi
: >"$report"
