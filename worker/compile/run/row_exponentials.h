// Rows of scores as attention needs them: vectorised by the compiler, with the same bits for every
// instruction set. Numbers of elements are multiples of kExpLanes, except in exponentials() and
// product_of_rows().
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::worker {

/// Totals of a row are added up in so many lanes, and these pairwise.
inline constexpr std::int64_t kExpLanes = 16;

/// e^x for each x: within 2 ulp; 0 below about the smallest normal number, +inf above about the
/// largest. Not-a-number stays one.
void exponentials(std::span<float> x);
void exponentials(std::span<double> x);
/// Replaces each x by e^(x - shift) and returns the sum of these.
float shifted_exponentials(float* x, std::int64_t count, float shift);
double shifted_exponentials(double* x, std::int64_t count, double shift);
/// The greatest of the elements that are numbers; minus infinity if there is none.
[[nodiscard]] float greatest_of(const float* x, std::int64_t count);
[[nodiscard]] double greatest_of(const double* x, std::int64_t count);
/// The sum of a[i] * b[i].
[[nodiscard]] float product_of_rows(const float* a, const float* b, std::int64_t count);
[[nodiscard]] double product_of_rows(const double* a, const double* b, std::int64_t count);

}  // namespace lockstep::worker
