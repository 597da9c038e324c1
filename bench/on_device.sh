#!/usr/bin/env bash
# All that needs a GPU, without a network, as two calls of 420 and 300 seconds at most.
#
#   bench/on_device.sh 1 OUTDIR    ceilings, each kernel once, a sweep, times, counters, laws
#   bench/on_device.sh 2 OUTDIR    times again, with what call 1 chose (TUNE); sanitizers, threads, other kernels
#
#   BUILD    a wheel of this checkout, or a folder that has the package hyrecall; without it, build/device/site,
#            which is built if it is absent or older than the sources
#   TUNE     the tune.json of call 1, for call 2
#   DEVICE   cuda:0 (the default), another cuda:N, or cpu; where HYRECALL_EMULATED names a folder, the emulated device
#   SIZE     full (the default: 1M rows x 768), small, tiny, dry (for the emulated device)
#   PYTHON   an interpreter with the packages of pyproject.toml, pytest and torch; scikit-build-core and pybind11 to build
#   WHEELS   a folder of wheels with the packages that this interpreter lacks (bench/README.md says how to get them)
#   COMMIT   what is reported as the commit, where git cannot say
#   STEPS    which steps of the call to take; by default all
#   PATIENCE by which the time limits are multiplied (default 1), for a machine with few cores
#
# OUTDIR gets device.json, device.md, tune.json, and results.tar.gz with these, the logs and all that steps wrote. The
# archive is made anew after each step, so a run that is cut off leaves what it had.
# A kernel that hangs or fails in the step `smoke` is left out of the later steps. A step that fails is reported and the
# others still run; the exit status is 0 if none did. The last lines say what was left out.
set -uo pipefail
exec </dev/null

[[ $# -eq 2 && "$1" =~ ^[12]$ ]] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
readonly call="$1" device="${DEVICE:-cuda:0}" size="${SIZE:-full}" python="${PYTHON:-python3}" patience="${PATIENCE:-1}"
mkdir -p "$2" || exit 2
target="$(cd "$2" && pwd)"
tune="$(realpath -m "${TUNE:-$target/tune.json}")" build="${BUILD:+$(realpath -m "${BUILD:-}")}"
cd "$(dirname "$0")/.." || exit 2
out="$(mktemp -d)" # what steps write, until it is packed
trap 'rm -rf "$out"' EXIT
mkdir "$out/logs"
readonly target tune build out built="$PWD/build/device" most=$((call == 1 ? 420 : 300))
readonly skipped=77 # the exit status of a step that cannot be taken here: its last line says why
readonly least=5    # seconds without which a step is not begun
readonly ending=10  # seconds for the report
rm -f "$target"/{results.tar.gz,device.json,device.md}

export PATH="$PATH:/usr/local/cuda/bin" PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1
HYRECALL_BENCH_THREADS="${HYRECALL_BENCH_THREADS:-$(nproc)}"
CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
export HYRECALL_BENCH_THREADS CMAKE_BUILD_PARALLEL_LEVEL
if [ -n "${HYRECALL_EMULATED:-}" ]; then export HYRECALL_CUDA_LIBRARY="$HYRECALL_EMULATED"; fi

# ---- the steps ----

build() { # installs what was carried, or builds
  if [[ "$build" == *.whl ]]; then
    rm -rf "$built/site"
    "$python" -m pip install -q --no-index --no-deps --no-compile --target "$built/site" "$build" || return
  elif [ -z "$build" ] && ! is_built; then
    rm -rf "$built/site"
    local cuda="${HYRECALL_CUDA:-ON}"
    if [ "$device" = cpu ]; then cuda="${HYRECALL_CUDA:-OFF}"; fi
    HYRECALL_CUDA=$cuda "$python" -m pip install -q --no-build-isolation --no-deps --no-index \
      -C build-dir="$built/cmake" --target "$built/site" . || return
  fi
  has_device && "$python" -c 'import hyrecall, hyrecall.base.runtime as r; print(hyrecall.__version__, r.cuda_report())'
}

is_built() {
  [ -d "$built/site" ] && [ -z "$(find csrc cmake python/hyrecall CMakeLists.txt -newer "$built/site" -print -quit 2>/dev/null)" ]
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

module() { # NAME FILE ARGUMENT...: a module of bench that writes a file
  "$python" -m "bench.device_$1" "$out/$2" --device "$device" "${@:3}"
}

smoke() { # each scanning kernel once, on a few tiles: leaves the names of those that hang or fail in $out/excluded
  need_device "kernels are a device's"
  has_device && module smoke "" --seconds "$((5 * patience))" --all "$((25 * patience))"
}

tables() { # walls and kernels of the same indexes; the model's way and the chosen one
  module cases cases.json --size "$size" --ceilings "$out/ceilings.json" --tune "$out/tune.json"
}

late() { # rows of many vectors
  module late late.json --size "$size" --ceilings "$out/ceilings.json"
}

counters() { # of a call's scans and of pick_best, where ncu is there and may read them
  need ncu
  ncu --clock-control none --set basic --section MemoryWorkloadAnalysis_Tables --launch-skip 16 --launch-count 8 \
    --kernel-name 'regex:scan_rows|scan_wide|scan_many|scan_postings|pick_best' \
    "$python" -m bench.device_hybrid "$out/counted.json" --device "$device" --size small --calls 6
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
  if [ "$size" = dry ]; then tests -n 0 tests/laws/test_l5_total_order.py -k "$device"; return; fi
  tests tests/laws tests/kernels tests/python/test_placing*.py tests/python/test_tensors_on_a_device.py tests/python/test_tensors_out.py
}

ways() { # what the device would not choose by itself: the kernels of older ones, each plane, little room
  has_device || return
  local setting code=0 generic="HYRECALL_CUDA_KERNELS=generic${HYRECALL_CUDA_KERNELS:+,$HYRECALL_CUDA_KERNELS}"
  local rows=() settings=("$generic" HYRECALL_FRONT_PLANE=rows HYRECALL_FRONT_PLANE=int8 "$little_room")
  if [ "$size" = dry ]; then
    settings=("$little_room") rows=(--rows 2)
  else
    (export "$generic" && tests tests/laws/test_l[1458]_*.py tests/kernels/test_first_pass_bound.py -k "$device or bound") || code=1
    (export "${little_room?}" && tests tests/laws/test_l[58]_*.py -k "$device") || code=1
  fi
  for setting in "${settings[@]}"; do
    echo "$setting"
    env "$setting" "$python" -m bench.device_sanitize --device "$device" --seconds "$1" "${rows[@]}" || code=1
  done
  return $code
}

sanitizer() { # TOOL
  need compute-sanitizer
  export "${little_room?}"
  compute-sanitizer --tool "$1" --error-exitcode 9 "$python" -m bench.device_sanitize --device "$device" --seconds "$((15 * patience))"
}

need() { # TOOL
  need_device "$1 watches a GPU"
  if [ -n "${HYRECALL_EMULATED:-}" ]; then echo "$1 watches a GPU, and this one is emulated"; exit $skipped; fi
  if ! command -v "$1" >/dev/null; then echo "$1 is not installed"; exit $skipped; fi
}

need_device() { # WHY
  if [ "$device" = cpu ]; then echo "$1, and this is the CPU"; exit $skipped; fi
}

# ---- how they run ----

readonly little_room=HYRECALL_DENSE_TUNING=64,1,2 # so that little data meets samples and overflow
budget=0 # seconds of the steps so far: a step may also take what the ones before it have left of theirs

step() { # NAME SECONDS FUNCTION ARGUMENT...: its output goes to logs/NAME.log, its fate to steps.tsv
  local name="$1" begin=$SECONDS code=0 result='' limit last whole=$((most * patience - ending - SECONDS))
  if [[ " ${STEPS:-$name} " != *" $name "* ]]; then leave_out "$name: not among STEPS"; return; fi
  budget=$((budget + $2 * patience))
  shift 2
  local log="$out/logs/$name.log"
  limit=$((budget - SECONDS < whole ? budget - SECONDS : whole))
  if [ "$limit" -lt $least ]; then
    echo "no time was left" >"$log"
    code=124 result="left out"
  else
    # A shell of its own, because timeout stops a command and all that it started, but no function.
    timeout -k 5 "$limit" bash -c "$(declare -f); $(declare -p device size python build built out skipped patience little_room); \"\$@\"" \
      step "$@" >"$log" 2>&1 || code=$?
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
if [ -d "$build" ]; then site="$build"; else site="$built/site"; fi
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
# Where nothing was carried, the last steps of call 1 wait for a build.
if [ -n "$build" ] || is_built; then building=15; else building=140; fi

step build $building build
step ceilings 20 module ceilings ceilings.json
step smoke 25 smoke
if [ -s "$out/excluded" ]; then # one name a line
  while read -r kernel; do
    leave_out "kernel $kernel: it hung or failed in smoke"
    HYRECALL_CUDA_KERNELS="${HYRECALL_CUDA_KERNELS:+$HYRECALL_CUDA_KERNELS,}-$kernel"
  done <"$out/excluded"
  export HYRECALL_CUDA_KERNELS
fi
if [ "$call" = 1 ]; then
  step sweep 85 module sweep tune.json --size "$size" --seconds $((75 * patience))
  step tables 75 tables
  step late 25 late
  step hybrid 50 module hybrid hybrid.json --size "$size"
  step counters 45 counters
  step laws 70 laws
else
  if [ -f "$tune" ]; then cp "$tune" "$out/tune.json"; else leave_out "times with what call 1 chose: TUNE names no file"; fi
  step tables 70 tables
  step threads 15 module cases threads.json --size "$size" --threads
  step memcheck 30 sanitizer memcheck
  step racecheck 30 sanitizer racecheck
  step initcheck 25 sanitizer initcheck
  step ways 60 ways 4
fi
"$python" -m bench.device_report "$out" --device "$device" --size "$size" \
  --command "DEVICE=$device SIZE=$size bench/on_device.sh $call OUTDIR" || failed=1
pack
cp "$out"/device.{json,md} "$target" || failed=1
if [ -f "$out/tune.json" ]; then cp "$out/tune.json" "$target"; fi
if [ -s "$out/left_out.txt" ]; then sed 's/^/left out: /' "$out/left_out.txt"; fi
echo "all of it: $SECONDS s"
exit $failed
