#!/usr/bin/env bash
# usage: build_tidy_plugin.sh SOURCE PLUGIN
# Compiles a plugin for the clang-tidy that is installed, with its own headers.
set -euo pipefail
version=$(clang-tidy --version | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p')
exec g++ -std=c++17 -O1 -fno-rtti -fPIC -shared \
  -isystem "/usr/lib/llvm-$version/include" "$1" -o "$2"
