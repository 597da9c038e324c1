// Lucene as a rival: indexes a file of texts, then answers batches of queries over standard input.
//
// A batch is big-endian: int32 threads, k and n, then n times an int32 length and so many bytes of
// UTF-8. Its answer is n x k int32 rows (-1: none), then n x k float32 scores. After the texts are
// indexed, and before the first batch, one int32 is written: their number.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LogDocMergePolicy;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopScoreDocCollector;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.MMapDirectory;

final class LuceneRival {
  private static final String FIELD = "text";

  private final IndexSearcher searcher;

  private LuceneRival(IndexSearcher searcher) {
    this.searcher = searcher;
    searcher.setSimilarity(new BM25Similarity(1.2f, 0.75f));
    searcher.setQueryCache(null);
  }

  // One thread and merges of neighbours keep the order, so a document's number is its row.
  private static void index(Path texts, MMapDirectory folder) throws IOException {
    var merges = new LogDocMergePolicy();
    var options = new IndexWriterConfig(new WhitespaceAnalyzer()).setMergePolicy(merges);
    options.setSimilarity(new BM25Similarity(1.2f, 0.75f));
    try (var writer = new IndexWriter(folder, options);
        var lines = Files.lines(texts)) {
      for (String line : (Iterable<String>) lines::iterator) {
        var document = new Document();
        document.add(new TextField(FIELD, line, Field.Store.NO));
        writer.addDocument(document);
      }
      writer.forceMerge(1);
      writer.commit();
    }
  }

  private ScoreDoc[] answer(String text, int k) throws IOException {
    var query = new BooleanQuery.Builder();
    for (String word : text.split(" ")) {
      query.add(new TermQuery(new Term(FIELD, word)), BooleanClause.Occur.SHOULD);
    }
    // It counts no hits beyond k, so it may skip from the k-th one on.
    var collector = TopScoreDocCollector.createSharedManager(k, null, k);
    return searcher.search(query.build(), collector).scoreDocs;
  }

  private ScoreDoc[][] answers(List<String> texts, int k, int threads) throws Exception {
    var found = new ScoreDoc[texts.size()][];
    if (threads == 1) {
      for (int i = 0; i < found.length; ++i) found[i] = answer(texts.get(i), k);
      return found;
    }
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      var shares = new ArrayList<Future<?>>();
      for (int share = 0; share < threads; ++share) {
        final int first = share;
        shares.add(
            pool.submit(
                () -> {
                  for (int i = first; i < found.length; i += threads) {
                    found[i] = answer(texts.get(i), k);
                  }
                  return null;
                }));
      }
      for (var share : shares) share.get();
    } finally {
      pool.shutdown();
    }
    return found;
  }

  private static void write(DataOutputStream out, ScoreDoc[][] found, int k) throws IOException {
    var rows = new int[found.length * k];
    var scores = new float[found.length * k];
    Arrays.fill(rows, -1);
    Arrays.fill(scores, Float.NEGATIVE_INFINITY);
    for (int query = 0; query < found.length; ++query) {
      for (int rank = 0; rank < found[query].length; ++rank) {
        rows[query * k + rank] = found[query][rank].doc;
        scores[query * k + rank] = found[query][rank].score;
      }
    }
    for (int row : rows) out.writeInt(row);
    for (float score : scores) out.writeFloat(score);
    out.flush();
  }

  public static void main(String[] args) throws Exception {
    var in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
    var out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
    try (var folder = new MMapDirectory(Path.of(args[1]))) {
      index(Path.of(args[0]), folder);
      try (var reader = DirectoryReader.open(folder)) {
        var lucene = new LuceneRival(new IndexSearcher(reader));
        out.writeInt(reader.numDocs());
        out.flush();
        while (true) {
          int threads = in.readInt();
          if (threads == 0) return;
          int k = in.readInt();
          var texts = new ArrayList<String>();
          for (int n = in.readInt(); n > 0; --n) {
            texts.add(new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8));
          }
          write(out, lucene.answers(texts, k, threads), k);
        }
      }
    }
  }
}
