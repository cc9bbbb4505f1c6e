// One controller, many workers: this process traces a step of a linear model, and the workers run
// it. Each worker keeps rows of its own, and their number differs between workers. The steps are
// issued without waiting for results, and only losses are fetched.
//
//   mpirun -n 4 lockstep worker --address-file workers.address     in one terminal
//   controller workers.address                                     in another
//
// Prints the losses of the first and of the last step; exit code 7 unless the last is below a tenth
// of the first.
#include <cstdio>
#include <vector>

#include <lockstep/worker/controller/controller.h>
#include <lockstep/worker/job.h>

using namespace lockstep::worker;

namespace {

struct StepIn {
  Tensor x, y, weights;
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y), v("weights", weights);
  }
};
struct StepOut {
  Tensor loss, weights;
  template <class V>
  void fields(V& v) {
    v("loss", loss), v("weights", weights);
  }
};

/// Returns the mean square error over the rows of all workers, and the weights after a step of
/// gradient descent.
StepOut step(StepIn in) {
  const Tensor off = matmul(in.x, in.weights) - in.y;
  const Tensor rows = all_reduce(sum(in.y * 0.0 + 1.0));
  const Tensor loss = sum(off * off);
  const Tensor slope = all_reduce(grad(loss, {in.weights})[0]) / rows;
  return {all_reduce(loss) / rows, in.weights - slope * 0.2};
}

/// Returns the rows of each worker: points (x0, x1) of a small grid, or the values x0 - 2 x1 at
/// these points.
std::vector<Array> rows_of(int workers, bool points) {
  std::vector<Array> out;
  for (int w = 0; w < workers; ++w) {
    const int rows = 20 + 10 * w;
    Array one(lockstep::DType::F64, {rows, points ? 2 : 1});
    for (int i = 0; i < rows; ++i) {
      const double a = (i % 5) / 2.0 - 1, b = ((i + w) % 7) / 3.0 - 1;
      if (points) one.set(2 * i, a), one.set(2 * i + 1, b);
      if (!points) one.set(i, a - 2 * b);
    }
    out.push_back(std::move(one));
  }
  return out;
}

lockstep::Result<bool> train(Controller& controller) {
  auto frame = controller.frame<StepIn, StepOut>("step", step);
  if (!frame) return frame.error();
  const auto x = controller.put(rows_of(controller.workers(), true), "points");
  const auto y = controller.put(rows_of(controller.workers(), false), "values");
  if (!x || !y) return x ? y.error() : x.error();
  Tensor weights = Array::zeros(lockstep::DType::F64, {2, 1});
  std::vector<Tensor> losses;
  for (int i = 0; i < 20; ++i) {
    auto out = (*frame)({*x, *y, weights});  // the first call is traced and compiled
    if (!out) return out.error();
    weights = out->weights;
    losses.push_back(out->loss);
  }
  const auto first = controller.fetch(losses.front()), last = controller.fetch(losses.back());
  if (!first || !last) return first ? last.error() : first.error();
  std::printf("%d workers: loss %.6f, then %.6f\n", controller.workers(), first->at(0),
              last->at(0));
  if (auto ended = controller.finish(); !ended) return ended.error();
  return last->at(0) < 0.1 * first->at(0);
}

}  // namespace

int main(int argc, char** argv) {
  auto controller = Controller::connect(argc > 1 ? argv[1] : "");
  if (!controller) return Job::report(controller.error());
  const auto learnt = train(**controller);
  if (!learnt) return Job::report(learnt.error());
  return *learnt ? 0 : 7;
}
