// Prints the dtype to which a plain Autocast casts products on the named processor: for
// cuda_job_test.
// usage: autocast_rank host|cuda
#include <cstdio>
#include <string>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;

namespace {

struct X {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

}  // namespace

int main(int argc, char** argv) {
  JobOptions options;
  if (argc > 1 && std::string(argv[1]) == "cuda") options.processor = Processor::Cuda;
  auto job = Job::init(&argc, &argv, options);
  if (!job) return Job::report(job.error());
  auto product = (*job)->frame<X, X>("product", [](X in) {
    const Autocast low(in.x);
    return X{matmul(in.x, in.x)};
  });
  return (*job)->run([&]() -> lockstep::Result<void> {
    const auto out = product({Array::zeros(lockstep::DType::F32, {2, 2})});
    if (!out) return out.error();
    std::printf("a product is %s\n",
                std::string(dtype_name(out->x.array().dtype())).c_str());
    return {};
  });
}
