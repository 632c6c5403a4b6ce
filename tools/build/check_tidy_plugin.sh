#!/usr/bin/env bash
# usage: check_tidy_plugin.sh RUN CONFIG PLUGIN SOURCE REPORT
# A plugin that hides our own code from clang-tidy would make everything look
# clean: checks that what is wrong with SOURCE is found. REPORT says what was.
set -euo pipefail
run=$1 config=$2 plugin=$3 source=$4 report=$5
if "$run" /dev/null "$config" "$plugin" "$source" -std=c++20 -iquote . \
  2>"$report"; then
  echo "clang-tidy with its plugin finds nothing in $source" >&2
  exit 1
fi
for check in modernize-use-override modernize-use-nullptr \
  bugprone-use-after-move readability-container-size-empty; do
  grep -q "$check" "$report" || {
    cat "$report" >&2
    echo "clang-tidy with its plugin does not find $check in $source" >&2
    exit 1
  }
done
