#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# valgrind.sh PROGRAM ARGUMENT…: `meson test --setup=valgrind` runs each test by this. Scripts run as they are: Python under
# valgrind shows nothing of ours. Any error or definite leak is exit 99.
here=$(dirname "$0")
case $(head -c 4 "$1" | tr -d '\0') in
  *ELF)
    exec valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite \
      --suppressions="$here/valgrind.supp" "$@" ;;
  *) exec "$@" ;;
esac
