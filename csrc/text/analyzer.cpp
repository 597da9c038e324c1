#include "text/analyzer.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "core/error.hpp"
#include "text/splitter.hpp"
#include "text/string_table.hpp"
#include "text/term_cache.hpp"
#include "text/terms.hpp"

namespace hyrecall::text {
namespace {

using Value = TermCache::Value;

// Appends texts to a batch; terms get their numbers by first use.
class BatchWriter {
 public:
  explicit BatchWriter(TokenBatch& out) : out_(out) {
    for (std::string const& term : out.terms) numbers_.add(term);
  }

  std::uint32_t number_of(std::string_view term) {
    std::uint32_t const number = numbers_.add(term);
    if (number == out_.terms.size()) out_.terms.emplace_back(term);
    return number;
  }

  void add_token(std::uint32_t term, std::uint32_t position) {
    bool const first = out_.term_ids.size() == out_.offsets.back();
    if (first || position != out_.positions.back()) ++length_;
    out_.term_ids.push_back(term);
    out_.positions.push_back(position);
  }

  void end_text(std::uint32_t n_words) {
    out_.n_words.push_back(n_words);
    out_.offsets.push_back(out_.term_ids.size());
    out_.lengths.push_back(std::exchange(length_, 0));
  }

 private:
  TokenBatch& out_;
  StringTable numbers_;
  std::uint32_t length_ = 0;
};

std::vector<std::vector<std::string>> checked(std::vector<std::vector<std::string>> made,
                                              std::size_t n, char const* name) {
  if (made.size() != n)
    throw Error(
        ErrorCode::kShape, name,
        "expected " + std::to_string(n) + " lists of terms, got " + std::to_string(made.size()));
  for (std::vector<std::string>& terms : made)
    std::erase_if(terms, [](std::string const& term) { return term.empty(); });
  return made;
}

class PresetAnalyzer final : public Analyzer {
 public:
  explicit PresetAnalyzer(AnalyzerOptions options)
      : preset_(options.preset), function_(std::move(options.token_function)) {
    for (std::string const& word : options.stopwords) {
      std::string_view const text = word;
      RawBatch const batch = split({&text, 1}, preset_, Role::kQuery);
      RawTerms const made = batch.items.size() == 1 ? terms_of(batch.raws[0], preset_) : RawTerms{};
      if (made.terms.size() != 1)
        throw Error(ErrorCode::kOption, "stopwords",
                    "expected words that this analyzer keeps as one term, got '" + word + "'");
      stopwords_.insert(made.terms[0].text);
    }
  }

  void analyze(std::span<std::string_view const> texts, Role role, TokenBatch& out) const override {
    RawBatch const batch = split(texts, preset_, role);
    std::vector<Value> const values = resolve(batch.raws);
    BatchWriter writer(out);
    // What each raw token adds, laid flat at its first use: the loop below runs once a token.
    struct Added {
      std::uint32_t term, delta;
    };
    struct Use {
      std::size_t begin = kUnused;  // into added
      std::uint32_t count = 0, n_positions = 1;
    };
    std::vector<Added> added;
    std::vector<Use> uses(batch.raws.size());
    for (std::size_t text = 0; text < texts.size(); ++text) {
      std::uint32_t position = 0, n_words = 0;
      for (std::size_t i = batch.offsets[text]; i < batch.offsets[text + 1]; ++i) {
        if (batch.items[i] == RawBatch::kGap) {
          ++position;
          continue;
        }
        ++n_words;
        bool const holds = (batch.items[i] & RawBatch::kHold) != 0;
        std::uint32_t const raw = batch.items[i] & ~RawBatch::kHold;
        Use& use = uses[raw];
        if (use.begin == kUnused) {
          use.begin = added.size();
          if (values[raw] == nullptr) {
            added.push_back({writer.number_of(batch.raws[raw]), 0});
          } else {
            use.n_positions = values[raw]->n_positions;
            for (Term const& term : values[raw]->terms)
              added.push_back({writer.number_of(term.text), term.delta});
          }
          use.count = static_cast<std::uint32_t>(added.size() - use.begin);
        }
        for (Added const& one : std::span(added).subspan(use.begin, use.count))
          writer.add_token(one.term, holds ? position : position + one.delta);
        if (!holds) position += use.n_positions;
      }
      writer.end_text(n_words);
    }
  }

 private:
  static constexpr std::size_t kUnused = ~std::size_t{0};

  bool needs_work(std::string_view raw) const {
    return function_ || !is_its_own_term(raw, preset_) ||
           (!stopwords_.empty() && stopwords_.contains(std::string(raw)));
  }

  // The terms of every distinct raw token of a batch; null where the token is its own term. The
  // work is done once for each token not yet remembered.
  std::vector<Value> resolve(StringTable const& raws) const {
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = 0; i < raws.size(); ++i)
      if (needs_work(raws[i])) wanted.push_back(i);
    std::vector<Value> values(raws.size());
    std::vector<std::uint32_t> const missing = raw_cache_.find_all(raws, wanted, values);
    std::vector<RawTerms> made;
    for (std::uint32_t const i : missing) {
      made.push_back(terms_of(raws[i], preset_));
      std::erase_if(made.back().terms,
                    [this](Term const& term) { return stopwords_.contains(term.text); });
    }
    if (missing.empty()) return values;
    if (function_) apply_function(made);
    for (std::size_t i = 0; i < missing.size(); ++i)
      values[missing[i]] = std::make_shared<RawTerms const>(std::move(made[i]));
    raw_cache_.add_all(raws, values, missing);
    return values;
  }

  // Puts the token function's terms in place of the preset's.
  void apply_function(std::vector<RawTerms>& made) const {
    StringTable inputs;
    for (RawTerms const& raw : made)
      for (Term const& term : raw.terms) inputs.add(term.text);
    std::vector<std::uint32_t> wanted(inputs.size());
    std::iota(wanted.begin(), wanted.end(), 0u);
    std::vector<Value> outputs(inputs.size());
    std::vector<std::uint32_t> const missing = function_cache_.find_all(inputs, wanted, outputs);
    std::vector<std::string> asked;
    for (std::uint32_t const i : missing) asked.emplace_back(inputs[i]);
    if (!asked.empty()) {
      std::vector<std::vector<std::string>> lists =
          checked(function_(asked), asked.size(), "token_function");
      for (std::size_t i = 0; i < missing.size(); ++i) {
        RawTerms output;
        for (std::string& term : lists[i])
          output.terms.push_back(
              {std::move(term), static_cast<std::uint32_t>(output.terms.size())});
        output.n_positions =
            std::max<std::uint32_t>(1, static_cast<std::uint32_t>(output.terms.size()));
        outputs[missing[i]] = std::make_shared<RawTerms const>(std::move(output));
      }
      function_cache_.add_all(inputs, outputs, missing);
    }
    for (RawTerms& raw : made) raw = replaced(raw, inputs, outputs);
  }

  static RawTerms replaced(RawTerms const& raw, StringTable const& inputs,
                           std::vector<Value> const& outputs) {
    RawTerms out;
    std::uint32_t shift = 0;
    for (std::size_t i = 0; i < raw.terms.size(); ++i) {
      RawTerms const& output = *outputs[inputs.find(raw.terms[i].text)];
      // A compound stands where its first part stands, whatever it became.
      bool const is_whole =
          i + 1 < raw.terms.size() && raw.terms[i + 1].delta == raw.terms[i].delta;
      for (Term const& term : output.terms)
        out.terms.push_back({term.text, raw.terms[i].delta + shift + (is_whole ? 0 : term.delta)});
      if (!is_whole) shift += output.n_positions - 1;
    }
    out.n_positions = raw.n_positions + shift;
    return out;
  }

  Preset preset_;
  TokenFunction function_;
  std::unordered_set<std::string> stopwords_;
  mutable TermCache raw_cache_;
  mutable TermCache
      function_cache_;  // a token function sees each term once, however it was written
};

class TextAnalyzer final : public Analyzer {
 public:
  explicit TextAnalyzer(TextFunction function) : function_(std::move(function)) {}

  void analyze(std::span<std::string_view const> texts, Role, TokenBatch& out) const override {
    BatchWriter writer(out);
    for (std::vector<std::string> const& terms :
         checked(function_(texts), texts.size(), "function")) {
      std::uint32_t position = 0;
      for (std::string const& term : terms) writer.add_token(writer.number_of(term), position++);
      writer.end_text(position);
    }
  }

 private:
  TextFunction function_;
};

}  // namespace

std::shared_ptr<Analyzer> make_analyzer(AnalyzerOptions options) {
  return std::make_shared<PresetAnalyzer>(std::move(options));
}

std::shared_ptr<Analyzer> make_text_analyzer(TextFunction function) {
  return std::make_shared<TextAnalyzer>(std::move(function));
}

}  // namespace hyrecall::text
