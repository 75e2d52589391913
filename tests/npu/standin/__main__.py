"""``python tests/npu/standin [FOLDER]``."""

from toolkit import main  # this folder is what was run

main()
