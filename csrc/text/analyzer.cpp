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

// The reader's side of a batch: terms get their numbers by first use.
class BatchReader : public Reader {
 public:
  std::size_t bytes() const override { return numbers_.n_bytes() + batch_.terms.size() * 64; }
  std::uint32_t find(std::string_view term) const override { return numbers_.find(term); }

 protected:
  void begin_texts() {
    batch_.offsets.assign(1, 0);
    batch_.term_ids.clear();
    batch_.positions.clear();
    batch_.lengths.clear();
    batch_.last_words.clear();
    batch_.spans.clear();
  }

  void expect_terms(std::size_t n) { numbers_.expect(n); }

  std::uint32_t number_of(std::string_view term) {
    std::uint32_t const number = numbers_.add(term);
    if (number == batch_.terms.size()) batch_.terms.emplace_back(term);
    return number;
  }

  void add_token(std::uint32_t term, std::uint32_t position) {
    bool const first = batch_.term_ids.size() == batch_.offsets.back();
    if (first || position != batch_.positions.back()) ++length_;
    batch_.term_ids.push_back(term);
    batch_.positions.push_back(position);
  }

  // The next token is the first of a word.
  void begin_word(std::uint32_t position) { last_word_ = {batch_.term_ids.size(), position}; }

  void end_text() {
    batch_.last_words.push_back(std::exchange(last_word_, {}));
    batch_.offsets.push_back(batch_.term_ids.size());
    batch_.lengths.push_back(std::exchange(length_, 0));
  }

 private:
  StringTable numbers_;
  std::uint32_t length_ = 0;
  TokenBatch::LastWord last_word_;
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
      : preset_(options.preset),
        function_(options.token_function),
        stems_(options.function_stems || options.preset == Preset::kPorter) {
    if (stems_ || !options.stopwords.empty()) {
      AnalyzerOptions plain{preset_, {}, {}};
      if (preset_ == Preset::kPorter) plain.preset = Preset::kPorterWords;
      if (preset_ == Preset::kTurkish) plain.preset = Preset::kTurkishWords;
      if (!stems_) plain.token_function = options.token_function;
      unfinished_ = std::make_unique<PresetAnalyzer>(std::move(plain));
    }
    for (std::string const& word : options.stopwords) {
      std::string_view const text = word;
      RawBatch batch;
      split({&text, 1}, preset_, Role::kQuery, batch);
      RawTerms const made = batch.items.size() == 1 ? terms_of(batch.raws[0], preset_) : RawTerms{};
      if (made.terms.size() != 1)
        throw Error(ErrorCode::kOption, "stopwords",
                    "expected words that this analyzer keeps as one term, got '" + word + "'");
      stopwords_.insert(made.terms[0].text);
    }
  }

  std::unique_ptr<Reader> reader(Role role) const override;
  std::unique_ptr<Reader> locating_reader(Role role) const override;
  bool calls_back() const override { return static_cast<bool>(function_); }
  Analyzer const& unfinished() const override { return unfinished_ ? *unfinished_ : *this; }
  bool stems() const override { return stems_; }

  // The terms of the raw tokens from number `first` on; null where the token is its own term. The
  // work is done once for each token not yet remembered.
  std::vector<Value> resolve(StringTable const& raws, std::uint32_t first) const {
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = first; i < raws.size(); ++i)
      if (needs_work(raws[i])) wanted.push_back(i);
    std::vector<Value> values(raws.size() - first);
    if (wanted.empty()) return values;
    std::vector<std::uint32_t> const missing = raw_cache_.find_all(raws, wanted, values, first);
    std::vector<RawTerms> made;
    for (std::uint32_t const i : missing) {
      made.push_back(terms_of(raws[i], preset_));
      std::erase_if(made.back().terms,
                    [this](Term const& term) { return stopwords_.contains(term.text); });
    }
    if (missing.empty()) return values;
    if (function_) apply_function(made);
    for (std::size_t i = 0; i < missing.size(); ++i)
      values[missing[i] - first] = std::make_shared<RawTerms const>(std::move(made[i]));
    raw_cache_.add_all(raws, values, missing, first);
    return values;
  }

  Preset preset() const { return preset_; }

 private:
  bool needs_work(std::string_view raw) const {
    return function_ || !is_its_own_term(raw, preset_) ||
           (!stopwords_.empty() && stopwords_.contains(std::string(raw)));
  }

  // Puts the token function's terms in place of the preset's.
  void apply_function(std::vector<RawTerms>& made) const {
    StringTable inputs;
    for (RawTerms const& raw : made)
      for (Term const& term : raw.terms) inputs.add(term.text);
    std::vector<std::uint32_t> wanted(inputs.size());
    std::iota(wanted.begin(), wanted.end(), 0u);
    std::vector<Value> outputs(inputs.size());
    std::vector<std::uint32_t> const missing = function_cache_.find_all(inputs, wanted, outputs, 0);
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
      function_cache_.add_all(inputs, outputs, missing, 0);
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
        out.terms.push_back({term.text, raw.terms[i].delta + shift + (is_whole ? 0 : term.delta),
                             raw.terms[i].begin, raw.terms[i].end});
      if (!is_whole) shift += output.n_positions - 1;
    }
    out.n_positions = raw.n_positions + shift;
    return out;
  }

  Preset preset_;
  TokenFunction function_;
  bool stems_;
  std::unique_ptr<PresetAnalyzer const> unfinished_;
  std::unordered_set<std::string> stopwords_;
  mutable TermCache raw_cache_;
  mutable TermCache
      function_cache_;  // a token function sees each term once, however it was written
};

class PresetReader final : public BatchReader {
 public:
  PresetReader(PresetAnalyzer const& analyzer, Role role, bool locates)
      : analyzer_(analyzer), role_(role) {
    raw_.locates = locates;
  }

  void read(std::span<std::string_view const> texts) override {
    begin_texts();
    if (role_ == Role::kQuery) raw_.raws.expect(most_words(texts));
    split(texts, analyzer_.preset(), role_, raw_);
    number_terms();
    batch_.term_ids.reserve(raw_.items.size());
    batch_.positions.reserve(raw_.items.size());
    for (std::size_t text = 0; text < texts.size(); ++text) add_text(text);
  }

  std::size_t bytes() const override {
    return BatchReader::bytes() + raw_.raws.n_bytes() + added_.size() * sizeof(Added) +
           uses_.size() * sizeof(Use) + plain_.size() * 32;
  }

 private:
  struct Added {
    std::uint32_t term, delta;
    std::uint32_t begin, end;  // as Term has them
  };
  struct Use {
    std::uint32_t begin, count;  // into added_
    std::uint32_t n_positions;
  };

  // About how many words of a usual length the texts have, at most.
  static std::size_t most_words(std::span<std::string_view const> texts) {
    std::size_t n_bytes = 0;
    for (std::string_view const text : texts) n_bytes += text.size();
    return n_bytes / 5;
  }

  // Raw tokens are numbered by first use, and so are their terms.
  void number_terms() {
    auto const first = static_cast<std::uint32_t>(plain_.size());
    std::vector<Value> const values = analyzer_.resolve(raw_.raws, first);
    expect_terms(raw_.raws.size());
    for (std::uint32_t raw = first; raw < raw_.raws.size(); ++raw) {
      Value const& value = values[raw - first];
      if (value == nullptr) {
        plain_.push_back(number_of(raw_.raws[raw]));
      } else if (value->terms.size() == 1 && value->n_positions == 1 && !raw_.locates) {
        plain_.push_back(number_of(value->terms[0].text));
      } else {
        auto const begin = static_cast<std::uint32_t>(added_.size());
        for (Term const& term : value->terms)
          added_.push_back({number_of(term.text), term.delta, term.begin, term.end});
        plain_.push_back(kSeveral | static_cast<std::uint32_t>(uses_.size()));
        uses_.push_back(
            {begin, static_cast<std::uint32_t>(value->terms.size()), value->n_positions});
      }
    }
  }

  void add_text(std::size_t text) {
    std::uint32_t position = 0;
    for (std::size_t i = raw_.offsets[text]; i < raw_.offsets[text + 1]; ++i) {
      std::uint32_t const item = raw_.items[i];
      if (item == RawBatch::kGap) {
        ++position;
        continue;
      }
      begin_word(position);
      bool const holds = (item & RawBatch::kHold) != 0;
      std::uint32_t const plain = plain_[item & ~RawBatch::kHold];
      if ((plain & kSeveral) == 0) {
        add_token(plain, position);
        if (raw_.locates) batch_.spans.push_back(raw_.spans[i]);
        position += holds ? 0 : 1;
        continue;
      }
      Use const use = uses_[plain & ~kSeveral];
      for (Added const& one : std::span(added_).subspan(use.begin, use.count)) {
        add_token(one.term, holds ? position : position + one.delta);
        if (raw_.locates) batch_.spans.push_back(part_of(raw_.spans[i], one));
      }
      if (!holds) position += use.n_positions;
    }
    end_text();
  }

  static Span part_of(Span raw, Added const& one) {
    return {raw.begin + one.begin, one.end == Term::kWhole ? raw.end : raw.begin + one.end};
  }

  static constexpr std::uint32_t kSeveral = 0x80000000u;

  PresetAnalyzer const& analyzer_;
  Role role_;
  RawBatch raw_;
  // By raw token: its one term, or kSeveral and where uses_ says what it adds. The loop of add_text
  // runs once a token and finds most of them in few bytes.
  std::vector<std::uint32_t> plain_;
  std::vector<Use> uses_;
  std::vector<Added> added_;
};

std::unique_ptr<Reader> PresetAnalyzer::reader(Role role) const {
  return std::make_unique<PresetReader>(*this, role, false);
}

std::unique_ptr<Reader> PresetAnalyzer::locating_reader(Role role) const {
  return std::make_unique<PresetReader>(*this, role, true);
}

class TextReader final : public BatchReader {
 public:
  explicit TextReader(TextFunction const& function) : function_(function) {}

  void read(std::span<std::string_view const> texts) override {
    begin_texts();
    for (std::vector<std::string> const& terms :
         checked(function_(texts), texts.size(), "function")) {
      std::uint32_t position = 0;
      for (std::string const& term : terms) {
        begin_word(position);
        add_token(number_of(term), position++);
      }
      end_text();
    }
  }

 private:
  TextFunction const& function_;
};

class LocatingReader final : public BatchReader {
 public:
  explicit LocatingReader(LocateFunction const& function) : function_(function) {}

  void read(std::span<std::string_view const> texts) override {
    begin_texts();
    for (std::vector<LocatedTerm> const& terms : function_(texts)) {
      std::uint32_t position = 0;
      for (LocatedTerm const& one : terms) {
        begin_word(position);
        add_token(number_of(one.term), position++);
        batch_.spans.push_back(one.span);
      }
      end_text();
    }
    require(batch_.lengths.size() == texts.size(), "located terms of each text");
  }

 private:
  LocateFunction const& function_;
};

class TextAnalyzer final : public Analyzer {
 public:
  TextAnalyzer(TextFunction function, LocateFunction locate)
      : function_(std::move(function)), locate_(std::move(locate)) {}

  std::unique_ptr<Reader> reader(Role) const override {
    return std::make_unique<TextReader>(function_);
  }
  std::unique_ptr<Reader> locating_reader(Role) const override {
    return locate_ ? std::make_unique<LocatingReader>(locate_) : nullptr;
  }
  bool calls_back() const override { return true; }

 private:
  TextFunction function_;
  LocateFunction locate_;
};

}  // namespace

int rules_version(Preset preset) {
  return preset == Preset::kUnicode ? 3 : 2;
}

std::shared_ptr<Analyzer> make_analyzer(AnalyzerOptions options) {
  return std::make_shared<PresetAnalyzer>(std::move(options));
}

std::shared_ptr<Analyzer> make_text_analyzer(TextFunction function, LocateFunction locate) {
  return std::make_shared<TextAnalyzer>(std::move(function), std::move(locate));
}

}  // namespace hyrecall::text
