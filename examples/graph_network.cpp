// A graph network: each edge carries a message made from the nodes at its two ends, and the network
// learns one number per graph, a sum over its edges. Every rank has other graphs in every step; the
// numbers of graphs, nodes and edges vary, down to zero. Only the first steps compile.
//
//   mpirun -n 4 graph_network    prints two losses; exit code 7 unless the second is below a
//                                quarter of the first
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::DType, lockstep::Result, lockstep::Status;
constexpr std::int64_t kWidth = 16, kSteps = 200, kPart = 50;

enum { In, Message, News, Out };  // the weights of the model

struct Input {
  std::vector<Tensor> model;
  AdamState adam;
  Tensor nodes, from, to;  // [nodes, 1]; i32 [edges]: for each edge, the indices of its two nodes
  Tensor sizes, targets;   // i32 [graphs]: number of nodes of each graph; [graphs]
  template <class V>
  void fields(V& v) {
    v("model", model), v("adam", adam), v("nodes", nodes), v("from", from), v("to", to);
    v("sizes", sizes), v("targets", targets);
  }
};

struct Output {
  Tensor loss;
  std::vector<Tensor> model;
  AdamState adam;
  template <class V>
  void fields(V& v) {
    v("loss", loss), v("model", model), v("adam", adam);
  }
};

/// Returns the network's number for each graph.
Tensor read_out(const Input& in) {
  const SymInt nodes = in.nodes.size(0);
  Tensor state = tanh(matmul(in.nodes, in.model[In]));
  for (int round = 0; round < 2; ++round) {
    const Tensor ends = cat({index_select(state, in.from), index_select(state, in.to)}, 1);
    const Tensor sent = relu(matmul(ends, in.model[Message]));
    state = state + matmul(index_add(nodes, in.to, sent), in.model[News]);
  }
  const Tensor graph = segment_ids(in.sizes, nodes);
  return reshape(index_add(in.sizes.size(0), graph, matmul(state, in.model[Out])), {-1});
}

Output step(const Input& in) {
  const Tensor error = read_out(in) - in.targets;
  const Tensor graphs = cast(all_reduce(scalar(error.size(0))), DType::F64);
  const Tensor mine = sum(error * error) / graphs;
  std::vector<Tensor> grads = grad(mine, in.model);
  for (Tensor& gradient : grads) gradient = all_reduce(gradient);
  const auto [after, state] = adam(in.model, grads, in.adam, {.rate = 0.01});
  return {all_reduce(mine), after, state};
}

Tensor matrix(std::mt19937& random, std::int64_t rows, std::int64_t columns) {
  Array out(DType::F64, {rows, columns});
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, (static_cast<double>(random() % 2001) / 1000 - 1) / (rows > 1 ? 6 : 1));
  return out;
}

void draw_graphs(Input& in, std::mt19937& random, std::int64_t count) {
  std::vector<double> values, from, to, sizes, targets;
  for (std::int64_t g = 0; g < count; ++g) {
    const std::size_t first = values.size(), n = 1 + random() % 5, edges = random() % (2 * n);
    for (std::size_t i = 0; i < n; ++i) values.push_back(random() % 2001 / 1000.0 - 1);
    sizes.push_back(static_cast<double>(n)), targets.push_back(0);
    for (std::size_t e = 0; e < edges; ++e) {
      const std::size_t a = first + random() % n, b = first + random() % n;
      from.push_back(static_cast<double>(a)), to.push_back(static_cast<double>(b));
      targets.back() += std::abs(values[a] - values[b]);
    }
  }
  const auto array = [](DType dtype, const std::vector<double>& of) {
    return Array::of(dtype, {static_cast<std::int64_t>(of.size())}, of);
  };
  in.nodes = array(DType::F64, values).reshaped({static_cast<std::int64_t>(values.size()), 1});
  in.from = array(DType::I32, from), in.to = array(DType::I32, to);
  in.sizes = array(DType::I32, sizes), in.targets = array(DType::F64, targets);
}

Result<void> train(Job& job) {
  auto compiled = job.frame<Input, Output>("graph_network", step);
  std::mt19937 alike(7), own(100 + static_cast<unsigned>(job.rank()));
  Input in;
  for (const std::int64_t rows : {std::int64_t{1}, 2 * kWidth, kWidth})
    in.model.push_back(matrix(alike, rows, kWidth));
  in.model.push_back(matrix(alike, kWidth, 1));
  in.adam = adam_start(in.model);
  double first = 0, last = 0;  // means of the first and the last steps
  for (std::int64_t s = 0; s < kSteps; ++s) {
    draw_graphs(in, own, job.rank() == 0 ? 8 + s % 3 : (s + job.rank()) % 9);
    const auto out = compiled(in);
    if (!out) return out.error();
    in.model = out->model, in.adam = out->adam;
    if (s < kPart) first += out->loss.array().at(0) / kPart;
    if (s >= kSteps - kPart) last += out->loss.array().at(0) / kPart;
    if (s > 2 && compiled.last_compiled())
      return Status{lockstep::Code::Internal, "it compiled", {}, {}};
  }
  if (job.rank() == 0) std::printf("the mean loss went from %.4f to %.4f\n", first, last);
  if (last < first / 4) return {};
  return Status{lockstep::Code::Internal, "the network does not learn", {}, {}};
}

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return train(**job); });
}
