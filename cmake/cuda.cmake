# libhyrecall_cuda: a library of its own, loaded on first use (csrc/kernels/device.cpp), with a static CUDA
# runtime, so that the package imports and answers on a machine without a driver.
set(HYRECALL_BUILD_CUDA OFF)
if(NOT HYRECALL_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(HYRECALL_BUILD_CUDA ON)
  elseif(HYRECALL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HYRECALL_CUDA=ON, but no CUDA compiler was found")
  endif()
endif()
message(STATUS "hyrecall: CUDA library ${HYRECALL_BUILD_CUDA}")

if(HYRECALL_BUILD_CUDA)
  # sm_80 code serves every later generic device, sm_90a the Hopper path; PTX for what comes after.
  set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
  enable_language(CUDA)
  file(GLOB HYRECALL_CUDA_SOURCES CONFIGURE_DEPENDS csrc/kernels/cuda/*.cu)
  add_library(hyrecall_cuda SHARED ${HYRECALL_CUDA_SOURCES})
  set_target_properties(hyrecall_cuda PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden)
  target_include_directories(hyrecall_cuda PRIVATE ${CMAKE_SOURCE_DIR}/csrc)
  # The device gives the host's bits: no contraction, IEEE division and roots, denormals kept.
  target_compile_options(hyrecall_cuda PRIVATE
    # constexpr functions of core/types.hpp run on the device too.
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -fmad=false -prec-div=true -prec-sqrt=true -ftz=false -Xfatbin=-compress-all
      -Xcompiler=-ffp-contract=off -Xcompiler=-Wall -Xptxas=-v>)
  if(HYRECALL_WERROR)
    target_compile_options(hyrecall_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  # What ptxas -v says goes to cuda_resources.txt in the build folder: tests/kernels reads it.
  set(HYRECALL_RESOURCE_REPORT ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/resource_report.py)
  set_property(TARGET hyrecall_cuda PROPERTY
    CUDA_COMPILER_LAUNCHER ${HYRECALL_RESOURCE_REPORT} ${CMAKE_CUDA_COMPILER_LAUNCHER})
  add_custom_command(TARGET hyrecall_cuda POST_BUILD
    COMMAND ${HYRECALL_RESOURCE_REPORT} --join ${CMAKE_BINARY_DIR}/cuda_resources.txt $<TARGET_OBJECTS:hyrecall_cuda>
    BYPRODUCTS ${CMAKE_BINARY_DIR}/cuda_resources.txt
    COMMAND_EXPAND_LISTS VERBATIM)
  install(TARGETS hyrecall_cuda LIBRARY DESTINATION hyrecall)
  if(HYRECALL_IN_TREE)
    set_target_properties(hyrecall_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/python/hyrecall)
  endif()
endif()
