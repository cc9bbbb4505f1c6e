// Random numbers by keys. A table of 12 x 6 numbers is spread over the ranks unevenly, by rows in
// one frame and by columns in another, and each rank draws its part: noise, dropped elements and
// tokens. The key is an input, so each step draws new numbers with the same program. Put together,
// the parts equal what one rank draws for the whole table.
//
//   mpirun -n 4 sampling     prints a row of each step; exit code 7 if a part differs
#include <cstdio>
#include <string>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Code;
using lockstep::DType;
using lockstep::Result;
using lockstep::Status;

constexpr std::int64_t kRows = 12, kColumns = 6, kClasses = 5, kSteps = 4;

struct Input {
  Tensor part;  // part of the table; its first element is at (row, column)
  SymInt row, column;
  Key key;  // equal on all ranks; the call compares it
  template <class V>
  void fields(V& v) {
    v("part", part), v("row", row), v("column", column), v("key", key);
  }
};

struct Output {
  Tensor noise, kept, tokens, order, own;
  template <class V>
  void fields(V& v) {
    v("noise", noise), v("kept", kept), v("tokens", tokens), v("order", order), v("own", own);
  }
};

Output sample(const Input& in) {
  const std::vector<Key> keys = in.key.split(5);  // one key for each draw
  const Sizes sizes{in.part.size(0), in.part.size(1)};
  const Part part{{kRows, kColumns}, {in.row, in.column}};
  return {uniform(keys[0], sizes, -1, 1, {.dtype = DType::F64, .part = part}),
          dropout(in.part, 0.25, keys[1], part), randint(keys[2], sizes, 0, kClasses, part),
          permutation(keys[3], kRows),  // of all rows: equal on all ranks
          // Here each rank draws other numbers, because its own number goes into the key.
          bernoulli(keys[4].fold_in(group_rank(in.part)), {in.part.size(0)}, 0.5)};
}

/// Returns the start of rank r's share of n; the shares are in proportion 1 : 2 : 3 : …
std::int64_t start(std::int64_t n, std::int64_t r, std::int64_t ranks) {
  return n * r * (r + 1) / (ranks * (ranks + 1));
}

Input input(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  Array ones(DType::F64, {rows, columns});
  for (std::int64_t i = 0; i < ones.elements(); ++i) ones.set(i, 1);
  return {ones, row, column, {}};
}

/// True if `part` equals the part of `whole` that begins at (row, column).
bool is_part(const Tensor& part, const Tensor& whole, std::int64_t row, std::int64_t column) {
  const Array a = part.array(), b = whole.array();
  const std::int64_t columns = a.sizes()[1];
  for (std::int64_t i = 0; i < a.elements(); ++i)
    if (a.at(i) != b.at((row + i / columns) * kColumns + column + i % columns)) return false;
  return true;
}

Result<void> run(Job& job) {
  // Draws the whole table: calls of this frame involve no other rank.
  auto alone = job.frame<Input, Output>("alone", {.consistency = Consistency::Local}, sample);
  auto by_rows = job.frame<Input, Output>("by_rows", sample);
  auto by_columns = job.frame<Input, Output>("by_columns", sample);
  const std::int64_t r = job.rank(), n = job.size();
  const std::int64_t row = start(kRows, r, n), column = start(kColumns, r, n);
  Input whole = input(0, kRows, 0, kColumns);
  Input rows = input(row, start(kRows, r + 1, n) - row, 0, kColumns);
  Input columns = input(0, kRows, column, start(kColumns, r + 1, n) - column);
  const Key seed(2026);
  bool same = true;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    whole.key = rows.key = columns.key = seed.fold_in(step);
    const auto all = alone(whole), mine = by_rows(rows), other = by_columns(columns);
    for (const auto* out : {&all, &mine, &other})
      if (!*out) return out->error();
    for (Tensor Output::*drawn : {&Output::noise, &Output::kept, &Output::tokens})
      same = same && is_part((*mine).*drawn, (*all).*drawn, row, 0) &&
             is_part((*other).*drawn, (*all).*drawn, 0, column);
    for (std::int64_t i = 0; i < kRows; ++i)
      same = same && mine->order.array().at(i) == all->order.array().at(i);
    if (step > 0) same = same && !by_rows.last_compiled() && !by_columns.last_compiled();
    if (r != 0) continue;
    std::printf("step %d:", static_cast<int>(step));
    for (std::int64_t i = 0; i < kColumns; ++i) std::printf(" %.6f", all->noise.array().at(i));
    std::printf("\n");
  }
  if (r == 0) std::printf(same ? "every part is of the whole\n" : "a part differs\n");
  if (same) return {};
  return Status{Code::Internal, "what a rank drew is no part of the whole", {}, {}};
}

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return run(**job); });
}
