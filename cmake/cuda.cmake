# libhyrecall_cuda: a library of its own, loaded on first use (csrc/device/device.cpp), with a static CUDA
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
  # sm_80 code serves every device from Ampere on, its PTX those to come; Hopper has scans of its own.
  set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
  enable_language(CUDA)
  file(GLOB HYRECALL_CUDA_SOURCES CONFIGURE_DEPENDS kernels/cuda/*.cu)
  set(HYRECALL_SM90_SOURCES ${HYRECALL_CUDA_SOURCES})
  list(FILTER HYRECALL_SM90_SOURCES INCLUDE REGEX "_sm90_")
  list(FILTER HYRECALL_CUDA_SOURCES EXCLUDE REGEX "_sm90_")
  add_library(hyrecall_cuda_sm90 OBJECT ${HYRECALL_SM90_SOURCES})
  set_target_properties(hyrecall_cuda_sm90 PROPERTIES CUDA_ARCHITECTURES 90a-real)
  add_library(hyrecall_cuda SHARED ${HYRECALL_CUDA_SOURCES} $<TARGET_OBJECTS:hyrecall_cuda_sm90>)
  # Most of the time of a small file is headers, read three times; scans take long enough to be shared among cores.
  set(HYRECALL_SCAN_SOURCES ${HYRECALL_CUDA_SOURCES})
  list(FILTER HYRECALL_SCAN_SOURCES INCLUDE REGEX "/scan_(bfloat16|int8)\\.cu$")
  set_source_files_properties(${HYRECALL_SCAN_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(hyrecall_cuda PROPERTIES UNITY_BUILD ${HYRECALL_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  file(REAL_PATH ${Python_EXECUTABLE} python)  # of a virtual environment it would be another command in the next one
  set(HYRECALL_RESOURCE_REPORT ${python} ${CMAKE_SOURCE_DIR}/cmake/resource_report.py)
  foreach(target hyrecall_cuda hyrecall_cuda_sm90)
    set_target_properties(${target} PROPERTIES
      CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden
      POSITION_INDEPENDENT_CODE ON)
    set_property(TARGET ${target} PROPERTY
      CUDA_COMPILER_LAUNCHER ${HYRECALL_RESOURCE_REPORT} ${CMAKE_CUDA_COMPILER_LAUNCHER})
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/csrc)
    # The device gives the host's bits: no contraction, IEEE division and roots, denormals kept.
    # constexpr functions of core/types.hpp run on the device too.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -fmad=false -prec-div=true -prec-sqrt=true -ftz=false
        -Xfatbin=-compress-all -Xcompiler=-ffp-contract=off -Xcompiler=-Wall -Xptxas=-v>)
    if(HYRECALL_WERROR)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
    endif()
  endforeach()
  target_link_options(hyrecall_cuda PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/cuda_exports.map)
  set_target_properties(hyrecall_cuda PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/cuda_exports.map)
  # What ptxas -v says goes to cuda_resources.txt in the build folder: tests/kernels reads it.
  add_custom_command(TARGET hyrecall_cuda POST_BUILD
    COMMAND ${HYRECALL_RESOURCE_REPORT} --join ${CMAKE_BINARY_DIR}/cuda_resources.txt $<TARGET_OBJECTS:hyrecall_cuda>
      $<TARGET_OBJECTS:hyrecall_cuda_sm90>
    BYPRODUCTS ${CMAKE_BINARY_DIR}/cuda_resources.txt
    COMMAND_EXPAND_LISTS VERBATIM)
  install(TARGETS hyrecall_cuda LIBRARY DESTINATION hyrecall)
  if(HYRECALL_IN_TREE)
    set_target_properties(hyrecall_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/python/hyrecall)
  endif()
endif()
