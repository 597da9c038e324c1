// Text -> terms with positions. One analyzer serves documents and queries of an index.
//
// Invalid UTF-8 is read as U+FFFD, one for each byte, and separates words; so does NUL.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hyrecall::text {

// Scripts without spaces and Hangul: documents hold uni- and bigrams, queries bigrams.
enum class Role { kDocument, kQuery };

// A part of a text, in bytes.
struct Span {
  std::uint64_t begin = 0, end = 0;
};

// The analysed form of a batch of texts. Terms are numbered by first use.
struct TokenBatch {
  std::vector<std::string> terms;         // [n_terms] distinct terms, UTF-8
  std::vector<std::uint64_t> offsets{0};  // [n_texts + 1] into term_ids and positions
  std::vector<std::uint32_t> term_ids;    // [n_tokens] index into terms
  std::vector<std::uint32_t> positions;   // [n_tokens] from 0, never falling within a text
  // [n_texts] number of positions that hold a term: a compound and its first part share one, and a
  // removed stop word keeps its position (phrases stay honest) but does not count.
  std::vector<std::uint32_t> lengths;
  // The last of the words that a text was cut into, before anything became of them.
  struct LastWord {
    std::uint64_t first_token = 0;  // its tokens are the text's from this one on; none may be left
    std::uint32_t position = 0;
  };
  std::vector<LastWord> last_words;  // [n_texts]
  // [n_tokens] what each token was made of, as it is written; only from a reader that locates.
  std::vector<Span> spans;
};

// Distinct tokens -> for each the terms that stand for it, on successive positions. A token without
// terms keeps its position, which does not count in the length. Called once for each batch that has
// tokens not seen before.
using TokenFunction =
    std::function<std::vector<std::vector<std::string>>(std::span<std::string const>)>;
// Whole texts -> their terms, one position each. Called once for each batch.
using TextFunction =
    std::function<std::vector<std::vector<std::string>>(std::span<std::string_view const>)>;

// A term of a text function, and what of the text it was made of.
struct LocatedTerm {
  std::string term;
  Span span;
};
// The same as a TextFunction, with places.
using LocateFunction =
    std::function<std::vector<std::vector<LocatedTerm>>(std::span<std::string_view const>)>;

// Raise it when a rule of this folder changes the terms of any text: it is part of the hash of
// every analyzer of the preset.
enum class Preset;
int rules_version(Preset preset);

// Reads batch after batch for one thread, and remembers what became of the words it has seen.
class Reader {
 public:
  virtual ~Reader() = default;
  // Puts the tokens of these texts in place of those before. Terms stay, and keep their numbers.
  // After an exception the reader is of no more use.
  virtual void read(std::span<std::string_view const> texts) = 0;
  TokenBatch& batch() { return batch_; }
  TokenBatch const& batch() const { return batch_; }
  // The number of a term of any text so far; kNone32 if none has it.
  virtual std::uint32_t find(std::string_view term) const = 0;
  // What it remembers, in bytes. A caller to whom that is too much takes a new reader.
  virtual std::size_t bytes() const = 0;

 protected:
  TokenBatch batch_;
};

class Analyzer {
 public:
  virtual ~Analyzer() = default;
  // The analyzer must outlive its readers. Thread-safe.
  virtual std::unique_ptr<Reader> reader(Role role) const = 0;
  // A reader that says where each token stands. Null: the caller's function does not tell.
  virtual std::unique_ptr<Reader> locating_reader(Role role) const = 0;
  // Whether readers call functions of the caller's, which are then called by one thread alone.
  virtual bool calls_back() const = 0;
  // What becomes of a word that is not finished: nothing is removed or stemmed.
  virtual Analyzer const& unfinished() const { return *this; }
  // Whether words become stems.
  virtual bool stems() const { return false; }

  TokenBatch analyze(std::span<std::string_view const> texts, Role role) const {
    std::unique_ptr<Reader> const once = reader(role);
    once->read(texts);
    return std::move(once->batch());
  }
};

// How text is cut and what becomes of a word before a token function sees it.
enum class Preset {
  kWord,          // Python's re.findall(r"\w+", unicodedata.normalize("NFC", text.lower()))
  kWordMarks,     // the same, but combining marks stay in their word: the words that Snowball stems
  kTurkish,       // the same with Turkish small letters; its stems have no dotless i
  kTurkishWords,  // the words of kTurkish without a dotless i
  kUnicode,       // words, identifiers whole and split, scripts without spaces and Hangul as grams,
                  // emoji; case and accents folded
  kUnicode61,     // FTS5's unicode61 with remove_diacritics 2
  kPorter,        // FTS5's porter over unicode61, whose remove_diacritics is then 1
  kPorterWords,   // the words that kPorter stems
};

struct AnalyzerOptions {
  Preset preset = Preset::kUnicode;
  std::vector<std::string>
      stopwords;  // removed before the token function; each must be one word to the preset
  TokenFunction token_function;  // may be empty
  bool function_stems = false;   // and does nothing else
};

// The analyzers remember at most 1,000,000 distinct raw tokens (and 64 MB of them), then begin
// anew.
std::shared_ptr<Analyzer> make_analyzer(AnalyzerOptions options);
// locate: may be empty.
std::shared_ptr<Analyzer> make_text_analyzer(TextFunction function, LocateFunction locate);

}  // namespace hyrecall::text
