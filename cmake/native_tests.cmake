# The native test binary: the engine without Python, so that sanitizers see our code alone.
file(GLOB HYRECALL_TEST_SOURCES CONFIGURE_DEPENDS tests/native/*.cpp)
add_executable(hyrecall_native_tests ${HYRECALL_TEST_SOURCES})
target_link_libraries(hyrecall_native_tests PRIVATE hyrecall_engine)
target_include_directories(hyrecall_native_tests PRIVATE ${CMAKE_SOURCE_DIR}/tests)

# A libhyrecall_cuda.so with the wrong interface version, which the loader must refuse.
add_library(hyrecall_cuda_wrong_abi MODULE tests/native/wrong_abi/library.cpp)
target_include_directories(hyrecall_cuda_wrong_abi PRIVATE ${CMAKE_SOURCE_DIR}/csrc)
set(HYRECALL_WRONG_ABI_FOLDER ${CMAKE_BINARY_DIR}/wrong_abi)
set_target_properties(hyrecall_cuda_wrong_abi PROPERTIES
  OUTPUT_NAME hyrecall_cuda LIBRARY_OUTPUT_DIRECTORY ${HYRECALL_WRONG_ABI_FOLDER})
add_dependencies(hyrecall_native_tests hyrecall_cuda_wrong_abi)

target_compile_definitions(hyrecall_native_tests PRIVATE
  HYRECALL_GOLDEN_TABLE="${CMAKE_SOURCE_DIR}/tests/golden/arithmetic.csv"
  HYRECALL_WRONG_ABI_FOLDER="${HYRECALL_WRONG_ABI_FOLDER}")
add_test(NAME native COMMAND hyrecall_native_tests)
