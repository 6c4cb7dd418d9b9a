"""python -m tcptrace_lab"""

import sys

from tcptrace_lab.cli import main

sys.exit(main())
