#!/usr/bin/env bash
# All that needs a GPU, in under ten minutes and without a network: builds this checkout, tries each kernel once, holds
# the device to the laws, watches it with compute-sanitizer, and times it beside torch.
#
#   bench/device.sh OUTDIR
#   DEVICE=cpu SIZE=tiny bench/device.sh OUTDIR    the same on the CPU, without the sanitizer: to try the script
#
#   DEVICE   cuda:0 (the default), another cuda:N, or cpu
#   SIZE     full (the default: 1M rows x 768), small, tiny
#   PYTHON   an interpreter with the packages of pyproject.toml, scikit-build-core, pybind11, pytest and torch
#   WHEELS   a folder of wheels with the packages that this interpreter lacks (bench/README.md says how to get them)
#   STEPS    of: build smoke laws ways limits table times hybrid memcheck racecheck initcheck counters (default: all but the last);
#            without build, it is the hyrecall that PYTHON finds (PYTHONPATH=build/device/site: what was built last)
#   PATIENCE by which the time limits are multiplied (default 1, in all 525 s), for a machine with few cores
#
# OUTDIR gets three files: device.json, device.md, and results.tar.gz with these, the logs and all that steps wrote. The
# archive is made anew after each step, so a run that is cut off leaves what it had.
# A kernel that hangs or fails in the step `smoke` is left out of the later steps. A step that fails is reported and the
# others still run; the exit status is 0 if none did. The last lines say what was left out.
set -uo pipefail
exec </dev/null

readonly command="DEVICE=${DEVICE:-cuda:0} SIZE=${SIZE:-full} bench/device.sh OUTDIR"
[ $# -eq 1 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
mkdir -p "$1" || exit 2
target="$(cd "$1" && pwd)"
cd "$(dirname "$0")/.." || exit 2
out="$(mktemp -d)" # what steps write, until it is packed
trap 'rm -rf "$out"' EXIT
mkdir "$out/logs"

readonly device="${DEVICE:-cuda:0}" size="${SIZE:-full}" python="${PYTHON:-python3}"
readonly steps="${STEPS:-build smoke laws ways limits table times hybrid memcheck racecheck initcheck}"
readonly built="$PWD/build/device" patience="${PATIENCE:-1}" target out
readonly little_room=HYRECALL_DENSE_TUNING=64,1,2 # so that little data meets stages and overflow
readonly skipped=77   # the exit status of a step that cannot be taken here: its last line says why
readonly least=5      # seconds without which a step is not begun
rm -f "$target"/{results.tar.gz,device.json,device.md}

export PATH="$PATH:/usr/local/cuda/bin" PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1
HYRECALL_BENCH_THREADS="${HYRECALL_BENCH_THREADS:-$(nproc)}"
CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
export HYRECALL_BENCH_THREADS CMAKE_BUILD_PARALLEL_LEVEL

# ---- the steps ----

build() {
  local cuda="${HYRECALL_CUDA:-ON}"
  [ "$device" = cpu ] && cuda="${HYRECALL_CUDA:-OFF}"
  rm -rf "$built/cmake" "$built/site"
  HYRECALL_CUDA=$cuda "$python" -m pip install -q --no-build-isolation --no-deps --no-index \
    -C build-dir="$built/cmake" --target "$built/site" . || return
  if [ "$cuda" = ON ]; then cp "$built/cmake/cuda_resources.txt" "$out" || return; fi
  "$python" -c 'import hyrecall, hyrecall.base.runtime as r; print(hyrecall.__version__, r.cuda_report())'
}

smoke() { # each scanning kernel once, on one tile: leaves the names of those that hang or fail in $out/excluded
  need_device "kernels are a device's"
  has_device || return
  "$python" -m bench.device_smoke "$out" --device "$device" --seconds "$((5 * patience))" --all "$((40 * patience))"
}

has_device() { # pytest would skip what it cannot run, and that is not what this script is for
  "$python" - "$device" <<'PYTHON'
import sys
from hyrecall.base.runtime import cuda_report
report = cuda_report()
if sys.argv[1] not in ["cpu", *(found.device for found in report.devices)]:
    sys.exit(f"{sys.argv[1]} is not there: {report.problem or report.devices}")
PYTHON
}

tests() { # OPTION...: pytest with several workers where it may; warnings of other versions of packages are no faults
  local options=(-p no:cacheprovider -W default)
  if "$python" -c 'import xdist, pytest_timeout' 2>/dev/null; then
    options+=(-n "$(($(nproc) < 8 ? $(nproc) : 8))")
  else
    options+=(-o addopts= --import-mode=importlib) # pyproject.toml names options of both
  fi
  "$python" -m pytest -q "${options[@]}" --device "$device" "$@"
}

laws() { # the ordinary law suite, the golden tables, and the life of an index there
  has_device || return
  if [ -f "$built/cmake/cuda_resources.txt" ]; then export HYRECALL_CUDA_BUILD="$built/cmake"; fi
  tests tests/laws tests/kernels tests/python/test_placing*.py tests/python/test_tensors_on_a_device.py tests/python/test_tensors_out.py
}

ways() { # what the device would not choose by itself: the kernels of older ones, and each plane for rows of 16 bits
  has_device || return
  local setting code=0 generic="HYRECALL_CUDA_KERNELS=generic${HYRECALL_CUDA_KERNELS:+,$HYRECALL_CUDA_KERNELS}"
  (export "$generic" && tests tests/laws/test_l[1458]_*.py -k "$device") || code=1
  (export "$generic" && tests tests/kernels/test_first_pass_bound.py) || code=1
  (export "${little_room?}" && tests tests/laws/test_l[58]_*.py -k "$device") || code=1
  for setting in "$generic" HYRECALL_FRONT_PLANE=rows HYRECALL_FRONT_PLANE=int8 $little_room; do
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

times() { # of each kernel of a batch
  need_device "kernels are a device's"
  has_device || return
  "$python" -m bench.device_times --device "$device" --size "$size" | tee "$out/times.md"
  return "${PIPESTATUS[0]}"
}

hybrid() { # batches of texts, and of texts with vectors, beside the CPU
  has_device || return
  local rows=100000 queries=1024
  if [ "$size" = tiny ]; then rows=2000 queries=32; fi
  "$python" -m bench.device_hybrid --device "$device" --rows $rows --queries $queries | tee "$out/hybrid.md"
  return "${PIPESTATUS[0]}"
}

sanitizer() { # TOOL
  need compute-sanitizer
  export "${little_room?}"
  compute-sanitizer --tool "$1" --error-exitcode 9 "$python" -m bench.device_sanitize --device "$device" --seconds "$((12 * patience))"
}

counters() { # of the scanning kernels, where ncu is there and may read them
  need ncu
  ncu --clock-control none --kernel-name regex:scan_ --launch-skip 4 --launch-count 8 --set basic \
    "$python" -m bench.device_cases "$out/counters.json" --device "$device" --size small --without-rivals
}

need() { # TOOL
  need_device "$1 watches a GPU"
  if ! command -v "$1" >/dev/null; then echo "$1 is not installed"; exit $skipped; fi
}

need_device() { # WHY
  if [ "$device" = cpu ]; then echo "$1, and this is the CPU"; exit $skipped; fi
}

# ---- how they run ----

budget=0 # seconds of the steps so far: a step may also take what the ones before it have left of theirs

step() { # NAME SECONDS FUNCTION ARGUMENT...: its output goes to logs/NAME.log, its fate to steps.tsv
  local name="$1" begin=$SECONDS code=0 result='' limit last
  budget=$((budget + $2 * patience))
  shift 2
  if [[ " $steps " != *" $name "* ]]; then leave_out "$name: not among STEPS"; return; fi
  local log="$out/logs/$name.log"
  limit=$((budget - SECONDS))
  if [ "$limit" -lt $least ]; then
    echo "no time was left" >"$log"
    code=124 result="left out"
  else
    # A shell of its own, because timeout stops a command and all that it started, but no function.
    timeout -k 5 "$limit" bash -c "$(declare -f); $(declare -p device size python built out skipped patience little_room); \"\$@\"" step "$@" \
      >"$log" 2>&1 || code=$?
  fi
  last="$(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | tr '\t\r' '  ' | sed "s|$PWD|.|g; s|$out|OUTDIR|g")"
  case $code in
    0) result=ok ;;
    "$skipped") result=skipped ;;
    124 | 137) : "${result:=stopped after $((SECONDS - begin)) s}" ;;
    *) result="FAILED ($code)" ;;
  esac
  printf '%s\t%s\t%s\t%s\n' "$name" "$result" "$((SECONDS - begin))" "$last" >>"$out/steps.tsv"
  printf '%-10s %-20s %4d s\n' "$name" "$result" "$((SECONDS - begin))"
  case $result in
    ok) ;;
    skipped | 'left out') leave_out "$name: $last" ;;
    stopped*) leave_out "$name, or the rest of it: $result" ;;
  esac
  if [ "$result" != ok ]; then tail -n 15 "$log" | sed 's/^/    /'; fi
  [ $code -eq 0 ] || [ $code -eq "$skipped" ] || failed=1
  pack
}

leave_out() { # WHAT: and why
  echo "$1" >>"$out/left_out.txt"
}

pack() { # all of it in one file, whole at any time
  tar -czf "$target/.results" -C "$out" . && mv "$target/.results" "$target/results.tar.gz"
}

failed=0
if [ -n "${WHEELS:-}" ]; then
  rm -rf "$built/packages"
  "$python" -m pip install -q --no-index --no-deps --no-compile --target "$built/packages" "$WHEELS"/*.whl || exit 2
  PYTHONPATH="$built/packages${PYTHONPATH:+:$PYTHONPATH}"
fi
if [[ " $steps " == *" build "* ]]; then PYTHONPATH="$built/site${PYTHONPATH:+:$PYTHONPATH}"; fi
export PYTHONPATH="${PYTHONPATH:-}"

step build 140 build
step smoke 45 smoke
if [ -s "$out/excluded" ]; then # one name a line
  while read -r kernel; do
    leave_out "kernel $kernel: it hung or failed in smoke"
    HYRECALL_CUDA_KERNELS="${HYRECALL_CUDA_KERNELS:+$HYRECALL_CUDA_KERNELS,}-$kernel"
  done <"$out/excluded"
  export HYRECALL_CUDA_KERNELS
fi
step laws 80 laws
step ways 60 ways
step limits 20 limits
step table 80 table
step times 15 times
step hybrid 20 hybrid
step memcheck 22 sanitizer memcheck
step racecheck 22 sanitizer racecheck
step initcheck 21 sanitizer initcheck
step counters 0 counters # what the others have left
"$python" -m bench.device_report "$out" --device "$device" --size "$size" --command "$command" || failed=1
pack
cp "$out"/device.{json,md} "$target" || failed=1
if [ -s "$out/left_out.txt" ]; then sed 's/^/left out: /' "$out/left_out.txt"; fi
echo "all of it: $SECONDS s"
exit $failed
