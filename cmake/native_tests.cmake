# The native test binary: the engine without Python, so that sanitizers see our code alone.
file(GLOB HYRECALL_TEST_SOURCES CONFIGURE_DEPENDS tests/native/*.cpp)
if(HYRECALL_SANITIZE STREQUAL "thread")  # it says nothing of tests that start no thread
  list(FILTER HYRECALL_TEST_SOURCES INCLUDE REGEX
    "/(main|heap|test_core|test_dense_memory|test_lexical|test_lexical_build|test_snapshot)\\.cpp$")
endif()
add_executable(hyrecall_native_tests ${HYRECALL_TEST_SOURCES})
target_link_libraries(hyrecall_native_tests PRIVATE hyrecall_engine)
target_include_directories(hyrecall_native_tests PRIVATE ${CMAKE_SOURCE_DIR}/tests)
set_target_properties(hyrecall_native_tests PROPERTIES UNITY_BUILD ${HYRECALL_UNITY} UNITY_BUILD_BATCH_SIZE 4)
# Behind the engine's options: the last word counts. Optimised tests take twice as long to build, and run no faster.
target_compile_options(hyrecall_native_tests PRIVATE $<$<CONFIG:Release>:-O1>)
if(HYRECALL_SANITIZE MATCHES "undefined")  # the tests' own arithmetic is not what is looked at
  target_compile_options(hyrecall_native_tests PRIVATE -fno-sanitize=undefined)
endif()
if(HYRECALL_PCH)
  target_precompile_headers(hyrecall_native_tests PRIVATE ${HYRECALL_STANDARD_HEADERS})
endif()

# Readers beside writers, for as long as one likes: for the thread sanitizer above all.
add_executable(hyrecall_stress tests/native/stress/main.cpp)
target_link_libraries(hyrecall_stress PRIVATE hyrecall_engine)
target_include_directories(hyrecall_stress PRIVATE ${CMAKE_SOURCE_DIR}/tests)
add_test(NAME stress COMMAND hyrecall_stress 5)

# A libhyrecall_cuda.so with the wrong interface version, which the loader must refuse.
add_library(hyrecall_cuda_wrong_abi MODULE tests/native/wrong_abi/library.cpp)
target_include_directories(hyrecall_cuda_wrong_abi PRIVATE ${CMAKE_SOURCE_DIR}/csrc)
set(HYRECALL_WRONG_ABI_FOLDER ${CMAKE_BINARY_DIR}/wrong_abi)
set_target_properties(hyrecall_cuda_wrong_abi PROPERTIES
  OUTPUT_NAME hyrecall_cuda LIBRARY_OUTPUT_DIRECTORY ${HYRECALL_WRONG_ABI_FOLDER})
add_dependencies(hyrecall_native_tests hyrecall_cuda_wrong_abi)

# libhyrecall_cuda.so without CUDA: the same sources, with threads as fibers (tests/emulator). One file each that
# includes a .cu file, so that the host's compiler takes it.
file(GLOB HYRECALL_CUDA_FILES CONFIGURE_DEPENDS csrc/kernels/cuda/*.cu)
set(HYRECALL_EMULATED_SOURCES)
foreach(file ${HYRECALL_CUDA_FILES})
  get_filename_component(name ${file} NAME_WE)
  set(wrapper ${CMAKE_BINARY_DIR}/emulated/sources/${name}.cpp)
  file(GENERATE OUTPUT ${wrapper} CONTENT "#include \"kernels/cuda/${name}.cu\"\n")
  list(APPEND HYRECALL_EMULATED_SOURCES ${wrapper})
endforeach()
file(GLOB HYRECALL_EMULATOR_SOURCES CONFIGURE_DEPENDS tests/emulator/*.cpp)
if(HYRECALL_SANITIZE MATCHES "address")
  # The machine switches fibers millions of times. What it copies for kernels goes through the sanitizer's memcpy.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/emulator/fibers.cpp ${CMAKE_SOURCE_DIR}/tests/emulator/waiting.cpp
    PROPERTIES COMPILE_OPTIONS "-O2;-fno-sanitize=all" COMPILE_DEFINITIONS EMULATOR_ASAN=1)
endif()
add_library(hyrecall_emulated INTERFACE)
target_link_libraries(hyrecall_emulated INTERFACE hyrecall_options Threads::Threads)
target_include_directories(hyrecall_emulated INTERFACE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/tests/emulator)
target_compile_definitions(hyrecall_emulated INTERFACE HYRECALL_EMULATED)
# Unknown to the host's compiler: pragmas of nvcc.
target_compile_options(hyrecall_emulated INTERFACE -Wno-unknown-pragmas)
add_library(hyrecall_emulated_objects OBJECT ${HYRECALL_EMULATED_SOURCES} ${HYRECALL_EMULATOR_SOURCES})
target_link_libraries(hyrecall_emulated_objects PRIVATE hyrecall_emulated)
add_library(hyrecall_cuda_emulated MODULE $<TARGET_OBJECTS:hyrecall_emulated_objects>)
target_link_libraries(hyrecall_cuda_emulated PRIVATE hyrecall_emulated)
# Tests that look inside have a machine of their own, in the test binary.
target_link_libraries(hyrecall_native_tests PRIVATE hyrecall_emulated)
target_sources(hyrecall_native_tests PRIVATE $<TARGET_OBJECTS:hyrecall_emulated_objects>)
set(HYRECALL_EMULATED_FOLDER ${CMAKE_BINARY_DIR}/emulated)
set_target_properties(hyrecall_cuda_emulated PROPERTIES
  OUTPUT_NAME hyrecall_cuda LIBRARY_OUTPUT_DIRECTORY ${HYRECALL_EMULATED_FOLDER})
add_dependencies(hyrecall_native_tests hyrecall_cuda_emulated)

target_compile_definitions(hyrecall_native_tests PRIVATE
  HYRECALL_GOLDEN_TABLE="${CMAKE_SOURCE_DIR}/tests/golden/arithmetic.csv"
  HYRECALL_WRONG_ABI_FOLDER="${HYRECALL_WRONG_ABI_FOLDER}"
  HYRECALL_EMULATED_FOLDER="${HYRECALL_EMULATED_FOLDER}")
add_test(NAME native COMMAND hyrecall_native_tests)
set(HYRECALL_PLANTED ALL CACHE STRING "Which planted bugs are built: ALL, the FIRST of each file of csrc, or NONE")
set(HYRECALL_BROKEN_FOLDER ${CMAKE_BINARY_DIR}/broken)
if(NOT HYRECALL_PLANTED STREQUAL "NONE")
  include(cmake/planted_bugs.cmake)
endif()
get_property(planted DIRECTORY PROPERTY HYRECALL_PLANTED_NAMES)
list(JOIN planted "," planted)
target_compile_definitions(hyrecall_native_tests PRIVATE HYRECALL_BROKEN_FOLDER="${HYRECALL_BROKEN_FOLDER}"
  HYRECALL_PLANTED_NAMES=",${planted},")
