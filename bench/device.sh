#!/usr/bin/env bash
# All that needs a GPU, in under nine minutes and without a network: builds this checkout, holds the device to the
# laws, watches it with compute-sanitizer, and times it beside torch. Leaves OUTDIR/device.json, device.md and logs.
#
#   bench/device.sh OUTDIR
#   DEVICE=cpu SIZE=tiny bench/device.sh OUTDIR    the same on the CPU, without the sanitizer: to try the script
#
#   DEVICE   cuda:0 (the default), another cuda:N, or cpu
#   SIZE     full (the default: 1M rows x 768), small, tiny
#   PYTHON   an interpreter with the packages of pyproject.toml, scikit-build-core, pybind11, pytest and torch
#   STEPS    of: build laws ways limits table memcheck racecheck initcheck counters (default: all but the last); without
#            build, it is the hyrecall that PYTHON finds (PYTHONPATH=build/device/site: the one that was built last)
#   PATIENCE by which the time limits are multiplied (default 1, in all nine minutes), for a machine with few cores
#
# A step that fails is reported and the others still run; the exit status is 0 if none did.
set -uo pipefail
exec </dev/null

readonly command="DEVICE=${DEVICE:-cuda:0} SIZE=${SIZE:-full} bench/device.sh OUTDIR"
[ $# -eq 1 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
mkdir -p "$1/logs" || exit 2
out="$(cd "$1" && pwd)"
cd "$(dirname "$0")/.." || exit 2

readonly device="${DEVICE:-cuda:0}" size="${SIZE:-full}" python="${PYTHON:-python3}"
readonly steps="${STEPS:-build laws ways limits table memcheck racecheck initcheck}"
readonly built="$PWD/build/device" patience="${PATIENCE:-1}"
readonly deadline=$((525 * patience)) # seconds for all steps; the report takes a few more
readonly little_room=HYRECALL_DENSE_TUNING=64,1,2 # so that little data meets stages and overflow
readonly skipped=77   # the exit status of a step that cannot be taken here: its last line says why
rm -f "$out"/logs/* "$out"/{steps.tsv,limits.json,cases.json,device.json,device.md,cuda_resources.txt}

export PATH="$PATH:/usr/local/cuda/bin" PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1
HYRECALL_BENCH_THREADS="${HYRECALL_BENCH_THREADS:-$(nproc)}"
CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
export HYRECALL_BENCH_THREADS CMAKE_BUILD_PARALLEL_LEVEL

# ---- the steps ----

build() {
  local cuda=ON
  [ "$device" = cpu ] && cuda="${HYRECALL_CUDA:-OFF}"
  rm -rf "$built"
  HYRECALL_CUDA=$cuda "$python" -m pip install -q --no-build-isolation --no-deps --no-index \
    -C build-dir="$built/cmake" --target "$built/site" . || return
  if [ "$cuda" = ON ]; then cp "$built/cmake/cuda_resources.txt" "$out" || return; fi
  "$python" -c 'import hyrecall, hyrecall.runtime as r; print(hyrecall.__version__, r.cuda_report())'
}

has_device() { # pytest would skip what it cannot run, and that is not what this script is for
  "$python" - "$device" <<'PYTHON'
import sys
from hyrecall.runtime import cuda_report
report = cuda_report()
if sys.argv[1] not in ["cpu", *(found.device for found in report.devices)]:
    sys.exit(f"{sys.argv[1]} is not there: {report.problem or report.devices}")
PYTHON
}

tests() { # OPTION...: pytest with several workers where it may
  local plugins=(-p no:cacheprovider)
  if "$python" -c 'import xdist' 2>/dev/null; then plugins+=(-n "$(($(nproc) < 8 ? $(nproc) : 8))"); fi
  "$python" -m pytest -q "${plugins[@]}" --device "$device" "$@"
}

laws() { # the ordinary law suite, the golden tables, and the life of an index there
  has_device || return
  if [ -f "$built/cmake/cuda_resources.txt" ]; then export HYRECALL_CUDA_BUILD="$built/cmake"; fi
  tests tests/laws tests/kernels tests/python/test_placing*.py tests/python/test_tensors_on_a_device.py
}

ways() { # what the device would not choose by itself: the kernels of older ones, and each plane for rows of 16 bits
  has_device || return
  local setting code=0
  HYRECALL_CUDA_KERNELS=generic tests tests/laws/test_l[1458]_*.py -k "$device" || code=1
  HYRECALL_CUDA_KERNELS=generic tests tests/kernels/test_front_bound.py || code=1
  env "$little_room" tests tests/laws/test_l[58]_*.py -k "$device" || code=1
  for setting in HYRECALL_CUDA_KERNELS=generic HYRECALL_FRONT_PLANE=rows HYRECALL_FRONT_PLANE=int8 $little_room; do
    echo "$setting"
    (export "$setting" && tests tests/python/test_placing.py) || code=1
    env "$setting" "$python" -m bench.device_sanitize --device "$device" --seconds 4 || code=1
  done
  return $code
}

limits() {
  "$python" -m bench.device_limits "$out/limits.json" --device "$device"
}

table() {
  "$python" -m bench.device_cases "$out/cases.json" --device "$device" --size "$size" --limits "$out/limits.json"
}

sanitizer() { # TOOL
  need compute-sanitizer
  export "${little_room?}"
  compute-sanitizer --tool "$1" --error-exitcode 9 "$python" -m bench.device_sanitize --device "$device" --seconds 20
}

counters() { # of the scanning kernels, where ncu is there and may read them
  need ncu
  ncu --clock-control none --kernel-name regex:scan_ --launch-skip 4 --launch-count 8 --set basic \
    "$python" -m bench.device_cases "$out/counters.json" --device "$device" --size small --without-rivals
}

need() { # TOOL
  if [ "$device" = cpu ]; then echo "$1 watches a GPU, and this is the CPU"; exit $skipped; fi
  if ! command -v "$1" >/dev/null; then echo "$1 is not installed"; exit $skipped; fi
}

# ---- how they run ----

step() { # NAME SECONDS FUNCTION ARGUMENT...: its output goes to logs/NAME.log, its fate to steps.tsv
  local name="$1" limit="$(($2 * patience))" left=$((deadline - SECONDS)) begin=$SECONDS code=0 result
  shift 2
  [[ " $steps " == *" $name "* ]] || return 0
  local log="$out/logs/$name.log"
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  if [ "$limit" -lt 5 ]; then
    echo "no time was left" >"$log"
    code=124
  else
    # A shell of its own, because timeout stops a command and all that it started, but no function.
    timeout -k 5 "$limit" bash -c "$(declare -f); $(declare -p device size python built out skipped little_room); \"\$@\"" step "$@" \
      >"$log" 2>&1 || code=$?
  fi
  case $code in
    0) result=ok ;;
    "$skipped") result=skipped ;;
    124 | 137) result="stopped after $limit s" ;;
    *) result="FAILED ($code)" ;;
  esac
  printf '%s\t%s\t%s\t%s\n' "$name" "$result" "$((SECONDS - begin))" \
    "$(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | tr '\t\r' '  ' | sed "s|$PWD|.|g")" >>"$out/steps.tsv"
  printf '%-10s %-20s %4d s\n' "$name" "$result" "$((SECONDS - begin))"
  if [ "$result" != ok ]; then tail -n 15 "$log" | sed 's/^/    /'; fi
  [ $code -eq 0 ] || [ $code -eq "$skipped" ] || failed=1
}

failed=0
if [[ " $steps " == *" build "* ]]; then export PYTHONPATH="$built/site"; fi
step build 150 build
step laws 110 laws
step ways 60 ways
step limits 25 limits
step table 150 table
step memcheck 36 sanitizer memcheck
step racecheck 36 sanitizer racecheck
step initcheck 36 sanitizer initcheck
step counters 60 counters
"$python" -m bench.device_report "$out" --device "$device" --size "$size" --command "$command" || failed=1
echo "all of it: $SECONDS s"
exit $failed
