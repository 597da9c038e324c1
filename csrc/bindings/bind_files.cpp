// Binds files that are mapped to be read, and the check that they are still whole.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/take.hpp"
#include "core/block_checks.hpp"
#include "core/mapped_file.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

std::shared_ptr<MappedFile> map_file(std::string path, int descriptor, std::size_t size) {
  if (size == 0) throw Error(ErrorCode::kCorrupt, path, "expected a file with content, got none");
  return std::make_shared<MappedFile>(std::move(path), descriptor, size);
}

py::buffer_info bytes_of_file(MappedFile& file) {
  return {const_cast<std::uint8_t*>(file.data()),
          1,
          py::format_descriptor<std::uint8_t>::format(),
          1,
          {static_cast<py::ssize_t>(file.size())},
          {1},
          true};
}

void read_file_apart(MappedFile const& file, std::uintptr_t address, std::size_t size) {
  file.read_apart(reinterpret_cast<void const*>(address), size);
}

void read_file_in_order(MappedFile const& file, std::uintptr_t address, std::size_t size) {
  file.read_in_order(reinterpret_cast<void const*>(address), size);
}

int lock_file(MappedFile& file) {
  WithoutGil const nogil;  // the system reads the whole file
  return file.lock();
}

std::shared_ptr<MappedFiles> group_files(std::vector<std::shared_ptr<MappedFile>> const& files) {
  return std::make_shared<MappedFiles>(take_all(files));
}

std::shared_ptr<BlockChecks> make_checks(std::string path, py::buffer const& content,
                                         Array<std::uint64_t> const& sums, std::size_t block_bytes,
                                         std::vector<std::size_t> const& done, std::size_t place) {
  auto held = std::make_shared<py::buffer_info>(content.request());
  require(held->itemsize == 1 && held->ndim == 1, "bytes");
  auto const* const bytes = static_cast<std::uint8_t const*>(held->ptr);
  auto const size = static_cast<std::size_t>(held->size);
  // The buffer is released with the GIL held, whoever drops it last.
  std::shared_ptr<void const> owner(
      new std::shared_ptr<py::buffer_info>(std::move(held)), [](void const* kept) {
        call_python([kept] { delete static_cast<std::shared_ptr<py::buffer_info> const*>(kept); });
      });
  std::span<std::uint64_t const> const given = span_of(sums);
  return std::make_shared<BlockChecks>(
      std::move(path), Buffer<std::uint8_t>(bytes, size, std::move(owner)),
      std::vector<std::uint64_t>(given.begin(), given.end()), block_bytes, done, place);
}

void ensure_blocks(BlockChecks const& checks, std::uintptr_t address, std::size_t size) {
  WithoutGil const nogil;
  checks.ensure(reinterpret_cast<void const*>(address), size);
}

void ensure_all_blocks(BlockChecks const& checks) {
  WithoutGil const nogil;
  checks.ensure_all();
}

}  // namespace

void bind_files(py::module_& parent) {
  py::module_ m = parent.def_submodule(
      "files", "Files that are mapped to be read, and the checksums of their blocks.");
  py::class_<MappedFile, std::shared_ptr<MappedFile>>(
      m, "MappedFile", py::buffer_protocol(),
      "The first bytes of a file, mapped to be read. A read of a page that is lost sees zeros.")
      .def(py::init(&map_file), "Map a file; keeps a descriptor of its own. path: for messages.",
           py::arg("path"), py::arg("descriptor"), py::arg("size"))
      .def_buffer(&bytes_of_file)
      .def_property_readonly("size", &MappedFile::size, "The number of bytes.")
      .def("check", &MappedFile::check,
           "Raise if the file was cut or written to since, or if a read met a page that is lost.")
      .def("read_apart", &read_file_apart,
           "Tell the system that rows far from each other will be read of some bytes.",
           py::arg("address"), py::arg("size"))
      .def("read_in_order", &read_file_in_order,
           "Tell the system that all of some bytes will be read.", py::arg("address"),
           py::arg("size"))
      .def("lock", &lock_file,
           "Keep all pages in memory while the file is mapped; return errno, 0 for success.");

  py::class_<MappedFiles, std::shared_ptr<MappedFiles>>(m, "MappedFiles",
                                                        "Mapped files, checked with one call.")
      .def(py::init(&group_files), "Take files.", py::arg("files"))
      .def("__len__", &MappedFiles::size, "Return the number of files.")
      .def("check", &MappedFiles::check, "Check each file.")
      .def("check_reads", &MappedFiles::check_reads,
           "Raise if a read of one of the files met a page that is lost.");

  py::class_<BlockChecks, std::shared_ptr<BlockChecks>>(
      m, "BlockChecks", "The checksums of a file's blocks, compared when a block is first read.")
      .def(py::init(&make_checks),
           "Take the content of a file, the XXH3-64 of each block, and which were compared before. "
           "place: where the content begins in the file.",
           py::arg("path"), py::arg("content"), py::arg("sums"), py::arg("block_bytes"),
           py::arg("done"), py::arg("place") = 0)
      .def_property_readonly("n_left", &BlockChecks::n_left, "Blocks that nobody has read yet.")
      .def("ensure", &ensure_blocks, "Compare the blocks of some bytes of the content.",
           py::arg("address"), py::arg("size"))
      .def("ensure_all", &ensure_all_blocks, "Compare all blocks that are left.");
}

}  // namespace hyrecall::bindings
