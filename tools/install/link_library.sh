#!/usr/bin/env bash
# usage: link_library.sh NAME VERSION_HEADER EXPORTS ARCHIVE SHARED FLAGS
#          [SHARED_BELOW...] -- PART...
#
# Makes ARCHIVE and SHARED of the archives PART, SHARED with a version of its
# own: its soname, NAME.so.MAJOR, says which libraries the loader may take for
# it. While MAJOR is 0 a new MINOR may change anything, so the version of the
# symbols, the @INTERFACE@ of EXPORTS, has MINOR too, and a program refuses to
# start with the library of another one, by a message, instead of failing later.
set -euo pipefail
name=$1 header=$2 exports=$3 archive=$4 shared=$5 flags=$6
shift 6
below=()
while [ "$1" != -- ]; do
  below+=("$1")
  shift
done
shift

version=$(sed -n 's/.* kVersion = "\([0-9.]*\)";$/\1/p' "$header")
major=${version%%.*}
interface=$major
[ "$major" != 0 ] || interface=${version%.*}

# Two parts may have members of one name, and an archive holds both.
{
  echo "CREATE $archive"
  printf 'ADDLIB %s\n' "$@"
  echo SAVE
  echo END
} | ar -M
ranlib -D "$archive"

script=$(mktemp)
trap 'rm -f "$script"' EXIT
sed "s/@INTERFACE@/$interface/" "$exports" >"$script"
mapfile -t link_flags <"$flags"
# What stands on another of ours finds it beside itself.
rpath=()
[ ${#below[@]} -eq 0 ] || rpath=('-Wl,-rpath,$ORIGIN')
g++ -shared -o "$shared" -Wl,-soname,"$name.so.$major" \
  -Wl,--version-script="$script" -Wl,-z,defs -Wl,-z,relro,-z,now \
  -Wl,-Bsymbolic-functions -Wl,--build-id "${rpath[@]}" \
  -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
  -Wl,--as-needed "${below[@]}" "${link_flags[@]}"
