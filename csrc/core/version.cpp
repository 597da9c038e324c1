namespace hyrecall { extern char const* const kVersion; char const* const kVersion = "0.1.0"; }
