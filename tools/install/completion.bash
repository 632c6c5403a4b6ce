# Completion of the program verbena in bash.

_verbena() {
  local word=${COMP_WORDS[COMP_CWORD]} words
  COMPREPLY=()
  if [[ $word == -* ]]; then
    words=$(verbena --help 2>/dev/null | grep -o '^ *--[a-z-]*')
  elif [ "$COMP_CWORD" = 1 ]; then
    words="list describe call health ping channel certs"
  elif [ "${COMP_WORDS[1]}" = certs ]; then
    mapfile -t COMPREPLY < <(compgen -d -- "$word")
    return
  elif [ "$COMP_CWORD" = 3 ]; then
    words=$(_verbena_names "${COMP_WORDS[1]}" "${COMP_WORDS[2]}")
  else
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

# _verbena_names COMMAND SERVER: what may stand behind them, as the server says.
_verbena_names() {
  local services service
  services=$(verbena list --timeout=1s "$2" 2>/dev/null) || return 0
  case "$1" in
    list | describe | health) echo "$services" ;;
    call)
      for service in $services; do
        # Behind the method stand its request and its response.
        verbena list --timeout=1s "$2" "$service" 2>/dev/null | cut -d' ' -f1
      done
      ;;
  esac
}

# A server's port is part of a word, which ":" ends elsewhere.
_verbena_complete() {
  local COMP_WORDS COMP_CWORD
  read -r -a COMP_WORDS <<<"${COMP_LINE:0:COMP_POINT}"
  [ "${COMP_LINE:COMP_POINT-1:1}" != " " ] || COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _verbena
}
complete -F _verbena_complete verbena
