#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/layers/master_weights.h>

namespace lockstep::worker {
namespace {

bool has_master(const Tensor& param, const Line& where) { return is_half(param.dtype(where)); }

Tensor copy_in_f32(const Tensor& param, const Line& where) {
  if (param.traced()) return cast(param, DType::F32, where);
  const Array& from = param.array(where);
  Array out(DType::F32, from.sizes());
  for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, from.at(i));
  return out;
}

}  // namespace

std::vector<Tensor> masters_of(const std::vector<Tensor>& params, const Line& where) {
  std::vector<Tensor> out;
  for (const Tensor& param : params)
    if (has_master(param, where)) out.push_back(copy_in_f32(param, where));
  return out;
}

std::vector<Tensor> with_masters(std::string_view what, const std::vector<Tensor>& params,
                                 const std::vector<Tensor>& masters, const Line& where) {
  const auto wanted = std::count_if(params.begin(), params.end(),
                                    [&](const Tensor& param) { return has_master(param, where); });
  if (static_cast<std::size_t>(wanted) != masters.size())
    refuse(where, what,
           fmt::format("{} parameters of f16 or bf16, but {} masters; begin with {}_start() of "
                       "these parameters",
                       wanted, masters.size(), what == "adamw" ? "adam" : what));
  std::vector<Tensor> out;
  std::size_t next = 0;
  for (const Tensor& param : params)
    out.push_back(has_master(param, where) ? masters[next++] : param);
  return out;
}

std::vector<Tensor> split_masters(const std::vector<Tensor>& before,
                                  const std::vector<Tensor>& after, std::vector<Tensor>& masters,
                                  const Line& where) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (has_master(before[i], where)) masters.push_back(after[i]);
    out.push_back(cast(after[i], before[i].dtype(where), where));
  }
  return out;
}

}  // namespace lockstep::worker
