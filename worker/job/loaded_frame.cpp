#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/files/saved/saved_file.h>
#include <lockstep/worker/job/job_context.h>
#include <lockstep/worker/job/loaded_frame.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

bool is_integer(DType dtype) { return dtype < DType::F16 && dtype != DType::Bool; }

std::string given_text(const Array& value) {
  return fmt::format("{}[{}]", dtype_name(value.dtype()), fmt::join(value.sizes(), ", "));
}

/// Why `value` is not valid for the source; empty: it is valid.
std::string misfit(const SourceSpec& spec, const Array& value) {
  bool fits = static_cast<bool>(value);
  if (fits && spec.kind == Kind::Tensor)
    fits = value.dtype() == spec.dtype && value.sizes().size() == spec.ndim;
  else if (fits)
    fits = value.sizes().empty() && (spec.kind == Kind::Int     ? is_integer(value.dtype())
                                     : spec.kind == Kind::Float ? is_float(value.dtype())
                                                                : value.dtype() == DType::Bool);
  if (fits) return {};
  return fmt::format("the program takes {}{}, and is given {}", spec.text(),
                     spec.kind == Kind::Tensor ? "" : " (a 0-d array)",
                     value ? given_text(value) : "nothing");
}

/// The first error of inputs for a call with this list; nullopt: none.
std::optional<Status> misfit(const SourceList& list, const std::vector<FieldSpec>& fields,
                             const NamedValues& inputs) {
  for (const SourceSpec& spec : list.sources()) {
    const auto given = inputs.find(spec.name);
    if (given == inputs.end())
      return bad_input(fmt::format("the input {} is missing", spec.text()), spec.name);
    if (std::string why = misfit(spec, given->second); !why.empty())
      return bad_input(std::move(why), spec.name);
  }
  for (const auto& [name, value] : inputs)
    if (!list.find(name) && std::ranges::find(fields, name, &FieldSpec::name) == fields.end()) {
      std::vector<std::string> known;
      for (const SourceSpec& spec : list.sources()) known.push_back(spec.text());
      return bad_input(
          fmt::format("the program has no input {}; it takes {}", name, fmt::join(known, ", ")),
          name);
    }
  return std::nullopt;
}

/// The value of a field; nullopt: the array is not valid for it.
std::optional<FieldValue> field_value(const FieldSpec& spec, const Array& value) {
  const bool number = spec.type == FieldType::Bool || spec.type == FieldType::Int;
  if (number) {
    const bool fits =
        value.sizes().empty() &&
        (spec.type == FieldType::Bool ? value.dtype() == DType::Bool : is_integer(value.dtype()));
    return fits ? std::optional(FieldValue{*scalar_in(value), {}}) : std::nullopt;
  }
  if (value.dtype() != DType::U8 || value.sizes().size() != 1) return std::nullopt;
  return FieldValue{0, std::string(value.data_as<char>(), value.bytes())};
}

std::string count_text(int ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

/// Error of a program that was saved on another number of ranks than `here`, unless it can run
/// here.
std::optional<Status> other_number(const SavedProgram& program, int here, bool allowed,
                                   const std::string& path) {
  const auto bound = bound_to_ranks(program);
  if (allowed && !bound) return std::nullopt;
  const std::string first =
      fmt::format("{} was traced on {}, and {} has {}; ", path, count_text(program.ranks),
                  program.group.empty() ? "the job" : "group " + program.group, here);
  if (bound)
    return bad_input(fmt::format("{}{} needs as many: run it on {}, or save it again on {}", first,
                                 *bound, program.ranks, here));
  return bad_input(
      fmt::format("{}run it on as many, or save it again on {}, or, if the function does not "
                  "use the number of ranks, load it with other_ranks (lockstep run --other-ranks)",
                  first, here));
}

/// Error if the ranks and groups of this job are not those that the program needs.
std::optional<Status> wrong_ranks(const JobContext& job, const GroupContext& over,
                                  const SavedProgram& program, const LoadOptions& options,
                                  const std::string& path) {
  if (program.group != over.group.name)
    return bad_input(fmt::format("{} is the program of a frame of {}; load it with that group",
                                 path,
                                 program.group.empty() ? "all ranks" : "group " + program.group));
  if (const int here = over.data->size(); program.ranks != here)
    if (auto wrong = other_number(program, here, options.other_ranks, path)) return wrong;
  for (const auto& [name, size] : program.groups) {
    const auto known = job.groups.find(name);
    if (known == job.groups.end())
      return bad_input(
          fmt::format("{} has collectives of group {}, which has not been declared in this "
                      "job",
                      path, name));
    if (known->second.group.size() != size)
      return bad_input(
          fmt::format("{} has collectives of group {} with {} ranks, which has {} here", path, name,
                      size, known->second.group.size()));
  }
  for (const SavedEntry& entry : program.entries)
    for (const auto& [group, within] : entry.graph.nesting)
      for (const std::string& other : within) {
        const auto known = job.nesting.find(group);
        if (known == job.nesting.end() || !known->second.contains(other))
          return bad_input(
              fmt::format("{} relies on it that every set of group {} lies in one of group "
                          "{}, and here that is not so",
                          path, other, group));
      }
  return std::nullopt;
}

std::optional<Status> wrong_here(const JobContext& job, const GroupContext& over,
                                 const SavedProgram& program, const LoadOptions& options,
                                 const std::string& path) {
  if (auto wrong = wrong_ranks(job, over, program, options, path)) return wrong;
  if (over.frames.contains(program.frame))
    return bad_input(
        fmt::format("{} is the program of a frame {}, and this job has a frame of that name; "
                    "load it before, or in place of, making one",
                    path, program.frame));
  return std::nullopt;
}

/// The options of the saved frame, and the fingerprint of its entries, which the ranks compare.
FrameOptions frame_options(const SavedProgram& program, const LoadOptions& options) {
  using Complex = shapes::ShapeOptions::Complex;
  return {.group = options.group,
          .consistency = program.consistency,
          .audit = program.audit,
          .constraints = program.constraints,
          .complex_branches = program.complex_as_asserts ? Complex::Assert : Complex::Guard,
          .recordings = options.recordings,
          .program = program.joint_fingerprint()};
}

}  // namespace

Result<LoadedFrame> load_frame(
    JobContext& job, Result<SavedProgram> program, const std::string& path,
    const LoadOptions& options,
    const std::function<FrameRunner&(std::string, const FrameOptions&)>& add) {
  GroupContext* over = job.group(options.group);
  if (over == nullptr)
    return bad_input(fmt::format("{} is not loaded: this rank is in no set of group {}", path,
                                 options.group.name));
  std::optional<Status> wrong =
      program ? wrong_here(job, *over, *program, options, path) : std::optional(program.error());
  // Ranks that decide alone may have different programs.
  const bool alone = program && program->consistency == Consistency::Local;
  GroupContext& meeting = job.agreeing(*over, Consistency::SameGraph);
  RoundKey round = meeting.round(RoundKey::Kind::Load, program ? program->frame : std::string());
  if (program && !alone)
    round.options = "saved program " + program->joint_fingerprint().text().substr(0, 16);
  if (auto met = meeting.rounds->status_round(round, {.pending = 0, .local_error = wrong}); !met)
    return met.error();
  LoadedFrame out;
  out.name_ = program->frame;
  for (const SavedEntry& entry : program->entries) {
    auto list = entry.decision.list();
    if (std::ranges::none_of(out.lists_,
                             [&](const auto& l) { return l->digest() == list->digest(); }))
      out.lists_.push_back(std::move(list));
    for (const JoinedField& field : entry.decision.fields)
      if (std::ranges::find(out.fields_, field.spec.name, &FieldSpec::name) == out.fields_.end())
        out.fields_.push_back(field.spec);
    std::vector<std::string>& names = out.outputs_.emplace_back();
    for (const Graph::Output& output : entry.graph.outputs) names.push_back(output.name);
  }
  out.runner_ = &add(program->frame, frame_options(*program, options));
  if (auto started = out.runner_->start_from(*std::move(program), path); !started)
    return started.error();
  return out;
}

Result<void> LoadedFrame::read(const NamedValues& inputs, Observation& out,
                               std::vector<InputValue>& values) const {
  std::optional<Status> wrong;
  std::shared_ptr<const SourceList> list;
  for (const auto& known : lists_) {
    auto misfits = misfit(*known, fields_, inputs);
    if (!misfits) list = known;
    if (!misfits) break;
    if (!wrong) wrong = std::move(misfits);
  }
  if (!list) {
    wrong->message = fmt::format("{}: {}", name_, wrong->message);
    return *wrong;
  }
  out.list = list;
  out.values.assign(list->offsets().back(), 0);
  out.scalars.assign(list->scalars(), 0);
  out.orders.clear();
  out.marks.clear();
  out.fields.clear();
  values.assign(list->sources().size(), {});
  for (std::size_t i = 0; i < list->sources().size(); ++i) {
    const SourceSpec& spec = list->sources()[i];
    const Array& given = inputs.find(spec.name)->second;
    std::int64_t* at = out.values.data() + list->offsets()[i];
    if (spec.kind == Kind::Tensor) {
      std::ranges::copy(given.sizes(), at);
      values[i].array = given;
      if (const auto scalar = list->scalar(i)) out.scalars[*scalar] = *scalar_in(given);
    } else if (spec.kind == Kind::Float) {
      values[i].number = given.at(0);
      out.scalars[*list->scalar(i)] = std::bit_cast<std::int64_t>(values[i].number);
    } else {
      *at = *scalar_in(given);
    }
  }
  for (const FieldSpec& spec : fields_) {
    const auto given = inputs.find(spec.name);
    if (given == inputs.end()) continue;
    auto value = field_value(spec, given->second);
    if (!value)
      return bad_input(fmt::format("{}: the field {} ({}) is given {}", name_, spec.name,
                                   spec_text(spec), given_text(given->second)),
                       spec.name);
    out.fields.push_back({spec, *std::move(value)});
  }
  sort_fields(out.fields);
  return {};
}

Result<NamedValues> LoadedFrame::operator()(NamedValues inputs) {
  const auto turn = runner_->enter();
  if (!turn) return turn.error();
  Observation observation = runner_->take_observation();
  const auto readable = [&]() -> Result<void> {
    try {
      return read(inputs, observation, values_);
    } catch (const std::runtime_error& error) {  // a number cannot be read from a failed device
      return environment_error(error.what());
    }
  }();
  if (!readable) return runner_->refuse(readable.error());
  const auto inputs_bound = [&] {
    values_.clear();
    inputs.clear();
  };
  const auto outputs = runner_->call(std::move(observation), values_, {}, inputs_bound);
  if (!outputs) return outputs.error();
  const std::vector<std::string>& names =
      outputs_.at(static_cast<std::size_t>(runner_->last().entry));
  NamedValues out;
  for (std::size_t i = 0; i < names.size(); ++i) out.emplace(names[i], (*outputs)[i]);
  return out;
}

Status LoadedFrame::refuse(const Status& why) {
  const auto turn = runner_->enter();
  return turn ? runner_->refuse(why) : turn.error();
}

Result<void> LoadedFrame::prefetch(const NamedValues& next) {
  const auto turn = runner_->enter();
  if (!turn) return turn.error();
  Observation observation = runner_->take_observation();
  std::vector<InputValue> unused;
  const auto readable = read(next, observation, unused);
  runner_->prefetch(std::move(observation),
                    readable ? std::nullopt : std::optional<Status>(readable.error()));
  return {};
}

Result<void> LoadedFrame::save(const std::string& path, const SaveOptions& options) const {
  const auto turn = runner_->enter();
  if (!turn) return turn.error();
  const auto program = runner_->saved(options);
  if (!program) return program.error();
  return write_program(path, *program);
}

}  // namespace lockstep::worker
