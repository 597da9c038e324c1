#pragma once

#include "kernels/shared/abi.hpp"

namespace hyrecall::cuda {

Status run_formulas(FormulaParams const* params);
Status run_dots(DotParams const* params);

}  // namespace hyrecall::cuda
