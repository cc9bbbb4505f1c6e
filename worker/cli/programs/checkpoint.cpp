// lockstep checkpoint: lists checkpoints, compares their digests, and merges the pieces of all
// ranks into files that other tools read.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/files/checkpoint/folder.h>
#include <lockstep/worker/files/checkpoint/merge.h>
#include <lockstep/worker/files/checkpoint/state.h>

namespace lockstep::worker::cli {
namespace {

using nlohmann::ordered_json;

struct CheckpointOptionsOfCommand {
  std::string action, folder, output, prefix, most = "5G";
  std::int64_t step = -1;
  bool json = false;
};

/// Returns the checkpoints in the given folder, or the folder itself if it is a checkpoint. Errors:
/// BadInput (there is no checkpoint).
Result<std::vector<FoundCheckpoint>> chosen(const CheckpointOptionsOfCommand& options) {
  std::filesystem::path path(options.folder);
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  if (const auto step = step_of_folder(path.filename().string());
      step && std::filesystem::is_directory(path))
    return std::vector<FoundCheckpoint>{{*step, path.string()}};
  auto all = list_checkpoints(path.string());
  if (!all) return all.error();
  if (options.step >= 0)
    std::erase_if(*all, [&](const FoundCheckpoint& one) { return one.step != options.step; });
  const bool needed = options.step >= 0 || options.action != "list";
  if (all->empty() && needed)
    return bad_input(options.step < 0
                         ? fmt::format("{}: there is no checkpoint in it.", path.string())
                         : fmt::format("{}: there is no checkpoint of step {}; lockstep checkpoint "
                                       "list shows those that there are.",
                                       path.string(), options.step));
  return all;
}

ordered_json shown_value(const IndexedValue& value) {
  const auto one = [&](const std::string& text) -> ordered_json {
    if (value.kind == ValueKind::Float) return float_in(text).value_or(0);
    if (value.kind == ValueKind::Bool) return text == "true";
    if (value.kind == ValueKind::Text) return text;
    return int_in(text).value_or(0);
  };
  if (!value.per_rank) return one(value.texts[0]);
  ordered_json all = ordered_json::array();
  for (const std::string& text : value.texts) all.push_back(one(text));
  return all;
}

ordered_json document_of(const FoundCheckpoint& found, const CheckpointIndex& index) {
  ordered_json values = ordered_json::object();
  for (const IndexedValue& value : index.values)
    if (!value.name.starts_with("lockstep.")) values[value.name] = shown_value(value);
  std::uint64_t bytes = 0;
  for (const std::uint64_t of_file : index.file_bytes) bytes += of_file;
  return {{"step", found.step},
          {"folder", found.folder},
          {"world_size", index.world_size},
          {"tensors", index.tensors.size()},
          {"bytes", bytes},
          {"values", std::move(values)}};
}

int list(const CheckpointOptionsOfCommand& options, const std::vector<FoundCheckpoint>& all) {
  ordered_json rows = ordered_json::array();
  int code = kOk;
  for (const FoundCheckpoint& found : all) {
    const auto index = read_index(found.folder);
    if (index)
      rows.push_back(document_of(found, *index));
    else
      code = complain(index.error());
  }
  if (options.json)
    return print_result(document_text({{"format", "lockstep.checkpoints/1"},
                                       {"folder", options.folder},
                                       {"checkpoints", std::move(rows)}}),
                        code);
  std::string text =
      fmt::format("{:>10}{:>8}{:>10}{:>16}  {}\n", "step", "ranks", "tensors", "bytes", "values");
  for (const ordered_json& row : rows)
    text += fmt::format("{:>10}{:>8}{:>10}{:>16}  {}\n", row["step"].get<std::int64_t>(),
                        row["world_size"].get<int>(), row["tensors"].get<std::size_t>(),
                        row["bytes"].get<std::uint64_t>(),
                        row["values"].dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  return print_result(text, code);
}

int verify(const CheckpointOptionsOfCommand& options, const std::vector<FoundCheckpoint>& all) {
  std::string text;
  ordered_json rows = ordered_json::array();
  int code = kOk;
  for (const FoundCheckpoint& found : all) {
    const auto bytes = verify_checkpoint(found.folder);
    if (!bytes) code = complain(bytes.error());
    if (bytes) text += fmt::format("{}: {} bytes as they were saved\n", found.folder, *bytes);
    rows.push_back(
        {{"step", found.step},
         {"folder", found.folder},
         {"whole", bytes.has_value()},
         {"error", bytes ? ordered_json(nullptr) : ordered_json(bytes.error().message)}});
  }
  if (options.json)
    text = document_text({{"format", "lockstep.checkpoints.verified/1"},
                          {"folder", options.folder},
                          {"checkpoints", std::move(rows)}});
  return print_result(text, code);
}

/// Parses a number of bytes such as "5G".
std::optional<std::uint64_t> bytes_in(std::string text) {
  std::uint64_t unit = 1;
  for (const auto& [letter, of_letter] :
       {std::pair{'K', 1'000ull}, {'M', 1'000'000ull}, {'G', 1'000'000'000ull}})
    if (!text.empty() && text.back() == letter) unit = of_letter, text.pop_back();
  const auto count = int_in(text);
  if (!count || *count <= 0 || static_cast<std::uint64_t>(*count) > INT64_MAX / unit)
    return std::nullopt;
  return static_cast<std::uint64_t>(*count) * unit;
}

int merge(const CheckpointOptionsOfCommand& options, const FoundCheckpoint& last) {
  const auto most = bytes_in(options.most);
  if (!most)
    return complain("--max-file " + options.most +
                        " is no number of bytes, such as 5G, 500M or 4096; see lockstep checkpoint "
                        "--help.",
                    kUsage);
  std::string output = options.output;
  if (output.empty()) {
    const std::filesystem::path folder(last.folder);
    output = (folder.parent_path() / fmt::format("merged-{:06}", last.step)).string();
  }
  const auto merged = merge_checkpoint(
      last.folder, {.output = output, .prefix = options.prefix, .most_bytes = *most});
  if (!merged) return complain(merged.error());
  if (options.json)
    return print_result(document_text({{"format", "lockstep.checkpoints.merged/1"},
                                       {"step", last.step},
                                       {"folder", output},
                                       {"files", merged->files},
                                       {"tensors", merged->tensors},
                                       {"bytes", merged->bytes}}),
                        kOk);
  std::string text;
  for (const std::string& file : merged->files) text += fmt::format("{}/{}\n", output, file);
  return print_result(text + fmt::format("{} tensors, {} bytes, of step {}\n", merged->tensors,
                                         merged->bytes, last.step),
                      kOk);
}

int run(const CheckpointOptionsOfCommand& options) {
  if (options.action != "merge" && (!options.output.empty() || !options.prefix.empty()))
    return complain("--output and --prefix are for lockstep checkpoint merge.", kUsage);
  const auto all = chosen(options);
  if (!all) return complain(all.error());
  if (options.action == "list") return list(options, *all);
  if (options.action == "verify") return verify(options, *all);
  return merge(options, all->back());
}

}  // namespace

std::function<int()> declare_checkpoint(CLI::App& app) {
  auto options = std::make_shared<CheckpointOptionsOfCommand>();
  app.add_option("ACTION", options->action,
                 "list, verify (compare digests) or merge (whole tensors)")
      ->type_name("list|verify|merge")
      ->check(CLI::IsMember(std::vector<std::string>{"list", "verify", "merge"}).description(""))
      ->required();
  app.add_option("DIR", options->folder, "folder of checkpoints, or one of them")
      ->type_name("DIR")
      ->required();
  app.add_option("--step", options->step, "the checkpoint of this step only")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, INT64_MAX).description(""))
      ->default_str("list, verify: all; merge: the last");
  app.add_option("--output", options->output, "merge: the folder to make")
      ->type_name("DIR")
      ->default_str("DIR/merged-NNNNNN");
  app.add_option("--prefix", options->prefix,
                 "merge: tensors with this prefix only, and without it")
      ->type_name("NAME");
  app.add_option("--max-file", options->most, "merge: bytes of tensors in one file")
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_flag("--json", options->json, "print one JSON document");
  describe(app,
           {.text = "merge writes model.safetensors, or several files with "
                    "model.safetensors.index.json, as Hugging Face tools read them.",
            .codes = {{kUsage, "wrong usage; no checkpoint; a damaged one, with file and tensor"},
                      {6, "written by a later lockstep"}},
            .variables = {"TMPDIR"},
            .examples = {"lockstep checkpoint list DIR", "lockstep checkpoint verify DIR --json",
                         "lockstep checkpoint merge DIR --step 50 --prefix parameters."}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
