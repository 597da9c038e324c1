// clang-format off
// Written by tools/wgmma.py: products of a warpgroup, one function a kind and a width.
//
// sums (+)= 64 rows x queries over 32 bytes of each; PTX ISA, wgmma.mma_async. Without `adds` the
// old sums are dropped. sums[n] are those of queries 8 n to 8 n + 7, as test_scores wants them.
#pragma once

namespace hyrecall::cuda {

__device__ __forceinline__ void multiply_group(Int8, std::int32_t (&sums)[4][4],
    std::uint64_t rows, std::uint64_t queries, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, adds;\n}\n"
      : "+r"(sums[0][0]), "+r"(sums[0][1]), "+r"(sums[0][2]), "+r"(sums[0][3]), "+r"(sums[1][0]), "+r"(sums[1][1]), "+r"(sums[1][2]), "+r"(sums[1][3]), "+r"(sums[2][0]), "+r"(sums[2][1]), "+r"(sums[2][2]), "+r"(sums[2][3]), "+r"(sums[3][0]), "+r"(sums[3][1]), "+r"(sums[3][2]), "+r"(sums[3][3])
      : "l"(rows), "l"(queries), "r"(static_cast<std::int32_t>(adds)));
}

__device__ __forceinline__ void multiply_group(Int8, std::int32_t (&sums)[16][4],
    std::uint64_t rows, std::uint64_t queries, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds;\n}\n"
      : "+r"(sums[0][0]), "+r"(sums[0][1]), "+r"(sums[0][2]), "+r"(sums[0][3]), "+r"(sums[1][0]), "+r"(sums[1][1]), "+r"(sums[1][2]), "+r"(sums[1][3]), "+r"(sums[2][0]), "+r"(sums[2][1]), "+r"(sums[2][2]), "+r"(sums[2][3]), "+r"(sums[3][0]), "+r"(sums[3][1]), "+r"(sums[3][2]), "+r"(sums[3][3]), "+r"(sums[4][0]), "+r"(sums[4][1]), "+r"(sums[4][2]), "+r"(sums[4][3]), "+r"(sums[5][0]), "+r"(sums[5][1]), "+r"(sums[5][2]), "+r"(sums[5][3]), "+r"(sums[6][0]), "+r"(sums[6][1]), "+r"(sums[6][2]), "+r"(sums[6][3]), "+r"(sums[7][0]), "+r"(sums[7][1]), "+r"(sums[7][2]), "+r"(sums[7][3]), "+r"(sums[8][0]), "+r"(sums[8][1]), "+r"(sums[8][2]), "+r"(sums[8][3]), "+r"(sums[9][0]), "+r"(sums[9][1]), "+r"(sums[9][2]), "+r"(sums[9][3]), "+r"(sums[10][0]), "+r"(sums[10][1]), "+r"(sums[10][2]), "+r"(sums[10][3]), "+r"(sums[11][0]), "+r"(sums[11][1]), "+r"(sums[11][2]), "+r"(sums[11][3]), "+r"(sums[12][0]), "+r"(sums[12][1]), "+r"(sums[12][2]), "+r"(sums[12][3]), "+r"(sums[13][0]), "+r"(sums[13][1]), "+r"(sums[13][2]), "+r"(sums[13][3]), "+r"(sums[14][0]), "+r"(sums[14][1]), "+r"(sums[14][2]), "+r"(sums[14][3]), "+r"(sums[15][0]), "+r"(sums[15][1]), "+r"(sums[15][2]), "+r"(sums[15][3])
      : "l"(rows), "l"(queries), "r"(static_cast<std::int32_t>(adds)));
}

__device__ __forceinline__ void multiply_group(Int8, std::int32_t (&sums)[32][4],
    std::uint64_t rows, std::uint64_t queries, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, adds;\n}\n"
      : "+r"(sums[0][0]), "+r"(sums[0][1]), "+r"(sums[0][2]), "+r"(sums[0][3]), "+r"(sums[1][0]), "+r"(sums[1][1]), "+r"(sums[1][2]), "+r"(sums[1][3]), "+r"(sums[2][0]), "+r"(sums[2][1]), "+r"(sums[2][2]), "+r"(sums[2][3]), "+r"(sums[3][0]), "+r"(sums[3][1]), "+r"(sums[3][2]), "+r"(sums[3][3]), "+r"(sums[4][0]), "+r"(sums[4][1]), "+r"(sums[4][2]), "+r"(sums[4][3]), "+r"(sums[5][0]), "+r"(sums[5][1]), "+r"(sums[5][2]), "+r"(sums[5][3]), "+r"(sums[6][0]), "+r"(sums[6][1]), "+r"(sums[6][2]), "+r"(sums[6][3]), "+r"(sums[7][0]), "+r"(sums[7][1]), "+r"(sums[7][2]), "+r"(sums[7][3]), "+r"(sums[8][0]), "+r"(sums[8][1]), "+r"(sums[8][2]), "+r"(sums[8][3]), "+r"(sums[9][0]), "+r"(sums[9][1]), "+r"(sums[9][2]), "+r"(sums[9][3]), "+r"(sums[10][0]), "+r"(sums[10][1]), "+r"(sums[10][2]), "+r"(sums[10][3]), "+r"(sums[11][0]), "+r"(sums[11][1]), "+r"(sums[11][2]), "+r"(sums[11][3]), "+r"(sums[12][0]), "+r"(sums[12][1]), "+r"(sums[12][2]), "+r"(sums[12][3]), "+r"(sums[13][0]), "+r"(sums[13][1]), "+r"(sums[13][2]), "+r"(sums[13][3]), "+r"(sums[14][0]), "+r"(sums[14][1]), "+r"(sums[14][2]), "+r"(sums[14][3]), "+r"(sums[15][0]), "+r"(sums[15][1]), "+r"(sums[15][2]), "+r"(sums[15][3]), "+r"(sums[16][0]), "+r"(sums[16][1]), "+r"(sums[16][2]), "+r"(sums[16][3]), "+r"(sums[17][0]), "+r"(sums[17][1]), "+r"(sums[17][2]), "+r"(sums[17][3]), "+r"(sums[18][0]), "+r"(sums[18][1]), "+r"(sums[18][2]), "+r"(sums[18][3]), "+r"(sums[19][0]), "+r"(sums[19][1]), "+r"(sums[19][2]), "+r"(sums[19][3]), "+r"(sums[20][0]), "+r"(sums[20][1]), "+r"(sums[20][2]), "+r"(sums[20][3]), "+r"(sums[21][0]), "+r"(sums[21][1]), "+r"(sums[21][2]), "+r"(sums[21][3]), "+r"(sums[22][0]), "+r"(sums[22][1]), "+r"(sums[22][2]), "+r"(sums[22][3]), "+r"(sums[23][0]), "+r"(sums[23][1]), "+r"(sums[23][2]), "+r"(sums[23][3]), "+r"(sums[24][0]), "+r"(sums[24][1]), "+r"(sums[24][2]), "+r"(sums[24][3]), "+r"(sums[25][0]), "+r"(sums[25][1]), "+r"(sums[25][2]), "+r"(sums[25][3]), "+r"(sums[26][0]), "+r"(sums[26][1]), "+r"(sums[26][2]), "+r"(sums[26][3]), "+r"(sums[27][0]), "+r"(sums[27][1]), "+r"(sums[27][2]), "+r"(sums[27][3]), "+r"(sums[28][0]), "+r"(sums[28][1]), "+r"(sums[28][2]), "+r"(sums[28][3]), "+r"(sums[29][0]), "+r"(sums[29][1]), "+r"(sums[29][2]), "+r"(sums[29][3]), "+r"(sums[30][0]), "+r"(sums[30][1]), "+r"(sums[30][2]), "+r"(sums[30][3]), "+r"(sums[31][0]), "+r"(sums[31][1]), "+r"(sums[31][2]), "+r"(sums[31][3])
      : "l"(rows), "l"(queries), "r"(static_cast<std::int32_t>(adds)));
}

__device__ __forceinline__ void multiply_group(Bfloat16, float (&sums)[4][4],
    std::uint64_t rows, std::uint64_t queries, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, adds, 1, 1, 0, 0;\n}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]), "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3])
      : "l"(rows), "l"(queries), "r"(static_cast<std::int32_t>(adds)));
}

__device__ __forceinline__ void multiply_group(Bfloat16, float (&sums)[16][4],
    std::uint64_t rows, std::uint64_t queries, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, 0, 0;\n}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]), "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]), "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3]), "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]), "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]), "+f"(sums[10][0]), "+f"(sums[10][1]), "+f"(sums[10][2]), "+f"(sums[10][3]), "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]), "+f"(sums[11][3]), "+f"(sums[12][0]), "+f"(sums[12][1]), "+f"(sums[12][2]), "+f"(sums[12][3]), "+f"(sums[13][0]), "+f"(sums[13][1]), "+f"(sums[13][2]), "+f"(sums[13][3]), "+f"(sums[14][0]), "+f"(sums[14][1]), "+f"(sums[14][2]), "+f"(sums[14][3]), "+f"(sums[15][0]), "+f"(sums[15][1]), "+f"(sums[15][2]), "+f"(sums[15][3])
      : "l"(rows), "l"(queries), "r"(static_cast<std::int32_t>(adds)));
}

}  // namespace hyrecall::cuda
