// A user's own op: squareplus, (x + sqrt(x * x + 4)) / 2, a smooth relu. It is defined by a name, a
// shape rule and a reference; kernel text makes it as fast as the ops of lockstep, on host and
// GPUs. Its gradient is a traced function that calls a second own op. Before use, opcheck tests the
// op at many sizes, in every way in which it can run, and checks its claims. Then all ranks fit a
// small model with the op, and each rank stores its losses by a host call.
//
//   mpirun -n 4 own_op     prints what was tested and the losses; exit code 7 unless they fall to a
//                          tenth
#include <cmath>
#include <cstdio>
#include <vector>

#include <lockstep/worker/compile/opcheck/opcheck.h>
#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Code;
using lockstep::DType;
using lockstep::Result;
using lockstep::Status;

/// Defines an op that makes each element of its result from the same element of its input.
/// `element` computes it in the reference; `text`, an expression in x, computes it in compiled
/// programs.
OwnDefinition by_element(const char* name, double (*element)(double), const std::string& text) {
  OwnDefinition op;
  op.name = name;
  op.version = "1";
  op.shape_rule = [](std::span<const TensorMeta> inputs) { return inputs[0]; };
  op.reference = [element](std::span<const Array> inputs, Array& result) {
    for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, element(inputs[0].at(i)));
  };
  op.host_text = op.cuda_text =
      "for (long i = thread; i < count; i += threads) {\n  const T x = in0[i];\n  out[i] = " +
      text + ";\n}";
  return op;
}

Tensor slope(const Tensor& x) {
  static const OwnOp op(by_element(
      "example.squareplus_slope", [](double at) { return (1 + at / std::sqrt(at * at + 4)) / 2; },
      "(T(1) + x / sqrt_(x * x + T(4))) / T(2)"));
  return op({x});
}

const OwnOp& squareplus() {
  static const OwnOp op(
      by_element(
          "example.squareplus", [](double x) { return (x + std::sqrt(x * x + 4)) / 2; },
          "(x + sqrt_(x * x + T(4))) / T(2)"),
      [](const BackwardCall& call) { return std::vector{call.grads[0] * slope(call.inputs[0])}; });
  return op;
}

constexpr int kCalls = 200;

struct Input {
  Tensor x, wanted, w;
  template <class V>
  void fields(V& v) {
    v("x", x), v("wanted", wanted), v("w", w);
  }
};
struct Output {
  Tensor w;
  template <class V>
  void fields(V& v) {
    v("w", w);
  }
};

Result<void> run(Job& job) {
  const auto checked = opcheck(squareplus(), {{DType::F64, {"rows", "columns"}}});
  if (!checked) return checked.error();
  if (job.rank() == 0) std::printf("%s\n", checked->text.c_str());

  std::vector<double> losses;  // this rank's
  const double rate = 1.5 / job.size();
  auto step = job.frame<Input, Output>("step", [&losses, rate](const Input& in) {
    const Tensor error = squareplus()({matmul(in.x, in.w)}) - in.wanted;
    const Tensor loss = mean(error * error);
    host_call(
        "example.keep_loss", {loss}, [](auto inputs) { return inputs[0]; },
        [&losses](auto inputs, Array& result) {
          losses.push_back(inputs[0].at(0));
          result.set(0, 0);
        });
    return Output{in.w - rate * all_reduce(grad(loss, {in.w})[0])};
  });

  const std::int64_t rows = 6 + job.rank();  // a different number on every rank
  Array x(DType::F64, {rows, 3}), wanted(DType::F64, {rows, 1});
  for (std::int64_t i = 0; i < rows; ++i) {
    double at = 0;
    for (std::int64_t j = 0; j < 3; ++j) {
      x.set(i * 3 + j, std::sin(static_cast<double>(i * 5 + j * 3 + job.rank())));
      at += x.at(i * 3 + j) * static_cast<double>(j - 1);
    }
    wanted.set(i, (at + std::sqrt(at * at + 4)) / 2);
  }
  Tensor w = Array::zeros(DType::F64, {3, 1});
  for (int call = 0; call < kCalls; ++call) {
    const auto out = step({x, wanted, w});
    if (!out) return out.error();
    w = out->w;
  }
  std::printf("rank %d: the loss falls from %.6f to %.6f\n", job.rank(), losses.front(),
              losses.back());
  if (losses.size() == kCalls && losses.back() < 0.1 * losses.front()) return {};
  return Status{Code::Internal, "the losses do not fall", {}, {}};
}

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return run(**job); });
}
