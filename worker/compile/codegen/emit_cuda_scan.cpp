#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/codegen/emit_cuda.h>
#include <lockstep/worker/compile/codegen/scalar_text.h>
#include <lockstep/worker/compile/sums/scan_order.h>

namespace lockstep::worker {

using shapes::Expr;

namespace {

constexpr std::size_t kOfGroups = 0, kOfBatches = 1;

Expr groups_of(const Expr& size) { return ceil_div(size, kScanGroup); }
Expr batches_of(const Expr& size) { return ceil_div(groups_of(size), kSumTerms); }

}  // namespace

void CudaEmitter::add_scan_scratch(const Groups& scan) {
  const Expr rows = shapes::product(scan.leading);
  // A state has at most two doubles.
  emission_.scratch.push_back({DType::F64, Expr(2) * rows * groups_of(scan.size)});
  emission_.scratch.push_back({DType::F64, Expr(2) * rows * (batches_of(scan.size) + Expr(1))});
}

std::string CudaEmitter::group_state(const Groups& scan, const Access& row,
                                     const IndexText& group) {
  return fmt::format("(({}*){})[{}]", scan.state, body().scratch(kOfGroups, DType::F64),
                     (body().offset(row) * body().number(groups_of(scan.size)) + group).text);
}

std::string CudaEmitter::batch_state(const Groups& scan, const Access& row,
                                     const IndexText& batch) {
  const IndexText each = body().number(batches_of(scan.size)) + index_constant(1);
  return fmt::format("(({}*){})[{}]", scan.state, body().scratch(kOfBatches, DType::F64),
                     (body().offset(row) * each + batch).text);
}

CudaEmitter::Group CudaEmitter::open_groups(const Groups& scan, bool is_joined) {
  const Access row = body().open_loops(scan.leading);
  const IndexText group = nest().open(body().number(groups_of(scan.size)));
  nest().set_free();
  const int level = nest().innermost();
  const std::string n = body().number(scan.size).text;
  nest().before(level, fmt::format("{0} group = {0}::first();", scan.state));
  if (is_joined) {
    const std::string batch = batch_state(scan, row, group / index_constant(kSumTerms));
    nest().before(level, fmt::format("{} before = {};\nbefore.join({});", scan.state, batch,
                                     group_state(scan, row, group)));
  } else {
    nest().after(level, fmt::format("{} = group;", group_state(scan, row, group)));
  }
  nest().open_as(fmt::format("for (long j = {0} * {1}; j < {2} && j < {0} * {1} + {1}; ++j)",
                             group.text, kScanGroup, n));
  return {row, index_name("j", nest().innermost())};
}

void CudaEmitter::join_groups(const Groups& scan) {
  const Expr rows = shapes::product(scan.leading), batches = batches_of(scan.size);
  Access row = body().open_loops(scan.leading);
  IndexText batch = nest().open(body().number(batches));
  nest().set_free();
  int level = nest().innermost();
  nest().before(level, fmt::format("{0} batch = {0}::first();", scan.state));
  nest().open_as(fmt::format("for (long g = {0} * {1}; g < {2} && g < {0} * {1} + {1}; ++g)",
                             batch.text, kSumTerms, body().number(groups_of(scan.size)).text));
  const std::string group = group_state(scan, row, index_name("g", nest().innermost()));
  inner(fmt::format("const {0} group = {1};\n{1} = batch;\nbatch.join(group);", scan.state, group));
  nest().after(level, fmt::format("{} = batch;", batch_state(scan, row, batch)));
  add_kernel(cuda_text(nest()), rows * batches);

  row = body().open_loops(scan.leading);
  nest().set_free();
  level = nest().innermost();
  nest().before(level, fmt::format("ScanBatches<{}> batches;\nbatches.start();", scan.state));
  nest().after(level,
               fmt::format("{} = batches.base;", batch_state(scan, row, body().number(batches))));
  batch = nest().open(body().number(batches));
  inner(fmt::format("const {0} batch = {1};\n{1} = batches.base;\nbatches.add(batch);", scan.state,
                    batch_state(scan, row, batch)));
  add_kernel(cuda_text(nest()), rows);
}

void CudaEmitter::scan(NodeId id) {
  const Groups scan{
      scan_state(id), {leading(id).begin(), leading(id).end()}, node(id).meta.sizes.back()};
  const Expr rows = shapes::product(scan.leading);
  if (!split_scan(hint(rows), hint(scan.size))) {
    scan_nest(id);
    return add_kernel(cuda_text(nest()), rows);
  }
  add_scan_scratch(scan);
  for (const bool last : {false, true}) {
    if (last) join_groups(scan);
    const Group group = open_groups(scan, last);
    add_to_scan(id, "group", group.row, group.element);
    if (last) {
      inner(fmt::format("{} all = before;\nall.join(group);", scan.state));
      put_scan(id, "all", group.row, group.element);
    }
    add_kernel(cuda_text(nest()), rows * groups_of(scan.size));
  }
}

void CudaEmitter::nonzero(NodeId id) {
  const NodeId mask = node(id).inputs[0];
  const Groups scan{"ScanSum<long>", {}, total(mask).front()};
  if (!split_scan(1, hint(scan.size))) {
    nonzero_nest(id);
    return add_kernel(cuda_text(nest()), Expr(1));
  }
  add_scan_scratch(scan);
  for (const bool last : {false, true}) {
    if (last) join_groups(scan);
    const IndexText at = open_groups(scan, last).element;
    const std::string value = body().value(mask, {total(mask), {at}});
    if (!last) {
      inner(fmt::format("group.add({}, {});", value, at.text));
      add_kernel(cuda_text(nest()), groups_of(scan.size));
      continue;
    }
    const std::string out = body().buffer(id, true),
                      count = body().number(node(id).meta.sizes[0]).text;
    inner(
        fmt::format("const long place = before.total + group.total;\nif ({0}) {{\n  if (place < "
                    "{1}) {2}[place] = {3};\n  ++group.total;\n}}",
                    value, count, out, at.text));
    const std::string text = scoped(cuda_text(nest()));
    // Zeroes the rest if fewer elements are true than the result holds.
    body().start_nest();
    const Access rest = body().open_loops(node(id).meta.sizes);
    nest().set_free();
    inner(fmt::format("if ({0} >= {1}.total) {2}[{0}] = 0;", rest.index[0].text,
                      batch_state(scan, {}, body().number(batches_of(scan.size))), out));
    add_kernel(text + scoped(cuda_text(nest())),
               shapes::max(groups_of(scan.size), total(id).front()));
  }
}

}  // namespace lockstep::worker
