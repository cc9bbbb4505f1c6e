// A program to trace, for trace_test.cpp, which also runs it as a job and compares both.
// usage: trace_rank MODE [FILE.lsp]
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include <unistd.h>

#ifdef HAVE_MPI
#include <mpi.h>
#endif

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Code;
using lockstep::DType;
using lockstep::RankSet;
using lockstep::Result;
using lockstep::collectives::Reduce;

namespace {

struct Input {
  Tensor x, w;  // [rows, 3], [3]
  SymInt n = 4;
  SymFloat rate = 0.1;
  bool train = true;
  template <class V>
  void fields(V& v) {
    v("x", x), v("w", w), v("n", n), v("rate", rate), v("train", train);
  }
};

struct Output {
  Tensor w, loss;
  template <class V>
  void fields(V& v) {
    v("w", w), v("loss", loss);
  }
};

struct Rows {
  Tensor rows;
  template <class V>
  void fields(V& v) {
    v("rows", rows);
  }
};

struct Numbers {
  SymInt twice = 0;
  SymFloat mean = 0.0;
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("twice", twice), v("x", x), v("mean", mean);
  }
};

Output step(Input in) {
  Tensor loss = all_reduce(sum(in.x * in.x) * in.rate);
  if (in.n > 5) loss = loss + 1.0;
  if (group_any(in.x.size(0) > 6)) loss = loss * all_reduce(amax(in.x), Reduce::Max);
  if (!in.train) return {in.w, loss};
  return {in.w - all_reduce(sum(in.x, {0})) * in.rate, loss};
}

Tensor batch(std::int64_t rows) { return Array::zeros(DType::F64, {rows, 3}); }

/// Inputs with sizes that differ between ranks and calls, ints that are constant and then change,
/// and a bool that varies. The weights of one call are used in the next. Never reads a value.
Input input(int rank, int call, Tensor w) {
  return {batch(3 + (rank + 2 * call) % 5), std::move(w), call < 3 ? 4 : 4 + call, 0.1 * call,
          call % 4 != 3};
}

Tensor weights() { return Array::zeros(DType::F64, {3}); }

Result<void> steps(CompiledFrame<Input, Output>& frame, int rank, int calls,
                   const std::function<void(int, const Output&)>& after = {}) {
  Tensor w = weights();
  for (int call = 0; call < calls; ++call) {
    const auto out = frame(input(rank, call, w));
    if (!out) return out.error();
    w = out->w;
    if (after) after(call, *out);
  }
  return {};
}

using Mode = std::function<Result<void>(Job&)>;

Result<void> calls(Job& job) {
  auto frame = job.frame<Input, Output>("step", step);
  return steps(frame, job.rank(), 12);
}

Result<void> alike(Job& job) {
  auto frame = job.frame<Input, Output>("step", step);
  return steps(frame, 1, 7);
}

Result<void> ahead(Job& job) {
  auto frame = job.frame<Input, Output>("step", step);
  const Tensor w = weights();
  frame.prefetch(input(job.rank(), 0, w));
  for (int call = 0; call < 6; ++call) {
    frame.prefetch(input(job.rank(), call + 1, w));
    if (const auto out = frame(input(job.rank(), call, w)); !out) return out.error();
  }
  return {};
}

/// Calls on pairs of ranks, and on all ranks.
Result<void> pairs(Job& job) {
  const int first = job.rank() / 2 * 2;
  const auto pair = job.group("pair", RankSet::range({first}, {first + 1}));
  if (!pair) return pair.error();
  auto ours = job.frame<Input, Output>("ours", {.group = *pair}, [](Input in) {
    return Output{in.w, all_reduce(sum(in.x))};
  });
  auto all = job.frame<Input, Output>("all", [&](Input in) {
    return Output{in.w, all_reduce(all_reduce(sum(in.x), Reduce::Sum, *pair))};
  });
  for (int call = 0; call < 3; ++call) {
    if (auto ran = steps(ours, job.rank(), 1 + call); !ran) return ran;
    if (auto ran = steps(all, job.rank(), 1); !ran) return ran;
  }
  return {};
}

/// Frames of every consistency, audited ones, and the rounds between calls.
Result<void> kinds(Job& job) {
  const auto frame = [&](const char* name, Consistency consistency, bool audit) {
    return job.frame<Input, Output>(name, {.consistency = consistency, .audit = audit},
                                    [](Input in) {
                                      return Output{in.w, all_reduce(sum(in.x * in.x))};
                                    });
  };
  auto collectives = frame("collectives", Consistency::SameCollectives, false);
  auto sizes = frame("sizes", Consistency::SharedSizes, false);
  auto audited = frame("audited", Consistency::Local, true);
  auto local = job.frame<Input, Output>("local", {.consistency = Consistency::Local}, [](Input in) {
    return Output{in.w, sum(in.x)};
  });
  for (auto* one : {&collectives, &sizes, &audited, &local}) {
    if (auto ran = steps(*one, job.rank(), 3); !ran) return ran;
    if (auto well = job.settle(); !well) return well;
    const auto more = job.more(job.rank() == 0);
    if (!more) return more.error();
    if (auto met = job.resync(); !met) return met;
  }
  return {};
}

/// An error on all ranks, after which the program continues.
Result<void> wrong(Job& job) {
  auto frame = job.frame<Input, Output>("step", step);
  Input in = input(job.rank(), 0, weights());
  if (job.rank() == job.size() - 1) in.w = Array::zeros(DType::F32, {3});
  if (const auto out = frame(in); out) return lockstep::Status{Code::Internal, "no error", {}, {}};
  return steps(frame, job.rank(), 2);
}

/// Only rank 0 reads the result.
Result<void> lone(Job& job) {
  auto frame = job.frame<Input, Output>("step", step);
  return steps(frame, job.rank(), 6, [&](int call, const Output& out) {
    if (job.rank() == 0 && call == 1) std::printf("loss %g\n", out.loss.array().at(0));
  });
}

Result<void> unbacked(Job& job, bool pass_on) {
  auto frame = job.frame<Rows, Rows>(
      "pick", [](Rows in) { return Rows{nonzero(reshape(in.rows, {-1}) > 0.5)}; });
  auto next = job.frame<Rows, Rows>("next", [](Rows in) { return Rows{in.rows * 2}; });
  const auto out = frame({batch(4)});
  if (!out) return out.error();
  if (!pass_on) std::printf("%zu dims\n", out->rows.array().sizes().size());
  const auto after = next({out->rows});
  return after ? Result<void>{} : after.error();
}

/// Numbers computed from sizes are known without running, and so is an output that is an input.
Result<void> numbers(Job& job) {
  auto frame = job.frame<Rows, Numbers>("count", [](Rows in) {
    return Numbers{in.rows.size(0) * 2, 0.0, in.rows};
  });
  auto mean = job.frame<Rows, Numbers>("mean", [](Rows in) {
    return Numbers{1, SymFloat(sum(in.rows)), in.rows};
  });
  const auto out = frame({Array::of(DType::F64, {2}, std::vector<double>{7, 8})});
  if (!out) return out.error();
  std::printf("twice %ld, second %g\n", static_cast<long>(*out->twice.expr().constant()),
              out->x.array().at(1));
  std::printf("mean next\n");
  const auto after = mean({batch(2)});
  return after ? Result<void>{} : after.error();
}

/// One rank's graph has one node more.
Result<void> apart(Job& job) {
  auto frame =
      job.frame<Rows, Rows>("apart", {.consistency = Consistency::SameCollectives}, [&](Rows in) {
        const Tensor part = sum(in.rows);
        return Rows{all_reduce(job.rank() == 1 ? part * 2.0 : part)};
      });
  const auto out = frame({batch(3)});
  return out ? Result<void>{} : out.error();
}

/// Loads the frame without its function: y = x * n + lr, twice that, and its total.
Result<void> loads(Job& job, const std::string& path) {
  auto step = job.load(path);
  if (!step) return step.error();
  const auto number = [](DType dtype, double value) {
    return Array::of(dtype, {}, std::vector<double>{value});
  };
  const auto call = [&](std::int64_t rows, std::int64_t columns) {
    return (*step)({{"x", Array::zeros(DType::F64, {rows, columns})},
                    {"n", number(DType::I64, 3)},
                    {"lr", number(DType::F64, 0.5)},
                    {"double", number(DType::Bool, 1)}});
  };
  for (const std::int64_t rows : {3, 4})
    if (const auto out = call(rows + job.rank(), 2); !out) return out.error();
  if (call(3, 5)) return lockstep::Status{Code::Internal, "no error", {}, {}};
  const auto out = call(5, 2);
  return out ? Result<void>{} : out.error();
}

Result<void> between(Job& job, const std::function<Result<void>()>& act) {
  auto frame = job.frame<Input, Output>("step", step);
  if (auto ran = steps(frame, job.rank(), 2); !ran) return ran;
  if (auto acted = act(); !acted) return acted;
  return steps(frame, job.rank(), 2);
}

int run(Job& job, const Mode& mode) {
  return job.run([&] { return mode(job); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const std::map<std::string, Mode> modes{
      {"calls", calls},
      {"limit", calls},
      {"captures", calls},
      {"attached", calls},
      {"settings", calls},
      {"own", calls},
      {"alike", alike},
      {"ahead", ahead},
      {"pairs", pairs},
      {"kinds", kinds},
      {"wrong", wrong},
      {"lone", lone},
      {"apart", apart},
      {"loads", [&](Job& job) { return loads(job, argc > 2 ? argv[2] : ""); }},
      {"numbers", numbers},
      {"unbacked", [](Job& job) { return unbacked(job, false); }},
      {"passed", [](Job& job) { return unbacked(job, true); }},
      {"other",
       [](Job& job) {
         return between(job, [&] { return job.rank() == 1 ? job.settle() : Result<void>{}; });
       }},
      {"throws",
       [](Job& job) {
         return between(job, [&]() -> Result<void> {
           if (job.rank() == 1) throw std::runtime_error("the disk is full");
           return {};
         });
       }},
      {"killed",
       [](Job& job) {
         return between(job, [&]() -> Result<void> {
           if (job.rank() == 1) std::raise(SIGKILL);
           return {};
         });
       }},
      {"idle", [](Job& job) {
         return between(job, [&]() -> Result<void> {
           std::printf("idle\n");
           std::fflush(stdout);
           while (true) ::pause();
         });
       }}};
  if (!modes.contains(name)) return 2;
  JobOptions options;
  if (name == "limit") options.decision.recompile_limit = 1;
  if (name == "settings") {  // the program's own
    options.settings = Settings::from_environment().value();
    options.settings->trace.reset();
    options.settings->rendezvous.clear();
  }
  if (name == "captures") options.check_captures = 1;
#ifdef HAVE_MPI
  if (name == "attached") MPI_Init(&argc, &argv);
  int code = 0;
  {
    auto job = name == "attached" ? Job::attach(MPI_COMM_WORLD, options)
                                  : Job::init(&argc, &argv, options);
    if (!job) return Job::report(job.error());
    code = run(**job, modes.at(name));
  }
  if (name == "attached") MPI_Finalize();
#else
  auto job = Job::init(&argc, &argv, options);
  if (!job) return Job::report(job.error());
  const int code = run(**job, modes.at(name));
#endif
  return name == "own" && code == 0 ? 9 : code;
}
