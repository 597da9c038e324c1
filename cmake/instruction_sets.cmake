# The flags of the files that are compiled for one instruction set each, and HYRECALL_SOURCES without those of another
# processor. Only these files get such flags: a shared inline compiled with them would leak into every caller.
set(avx2 -mavx2 -mfma -mf16c)
set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -Wno-uninitialized -Wno-maybe-uninitialized)
set(avx512vnni ${avx512} -mavx512vnni)
set(amx ${avx512} -mamx-tile -mamx-int8)
set(neondot -march=armv8.2-a+dotprod)
set(instruction_sets)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(instruction_sets avx2 avx512 avx512vnni amx)
  list(FILTER HYRECALL_SOURCES EXCLUDE REGEX "_neon[a-z]*\\.cpp$")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(instruction_sets neondot)  # every aarch64 has neon
  list(FILTER HYRECALL_SOURCES EXCLUDE REGEX "_(avx|amx)[0-9a-z]*\\.cpp$")
endif()
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH top)
foreach(isa ${instruction_sets})
  foreach(kernel dot first_pass head_rows scores)
    set_source_files_properties(${top}/csrc/kernels/cpu/${kernel}_${isa}.cpp PROPERTIES COMPILE_OPTIONS "${${isa}}"
      SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endforeach()
