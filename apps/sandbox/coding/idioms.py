"""How are the usual document libraries called right? Short programs that a test carries out.

They stand in the description of run_code, for the calls that models get wrong: reading a colour
that was never set, a canvas method that does not exist, a name that was never imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Idiom:
    """One library: a program that uses it right, the file that it makes, and what goes wrong."""

    library: str
    program: str
    target: str
    beware: str


IDIOMS: Final = (
    Idiom(
        "python-pptx",
        "from pptx import Presentation; from pptx.util import Inches, Pt\n"
        "from pptx.dml.color import RGBColor\n"
        "p = Presentation(); s = p.slides.add_slide(p.slide_layouts[5])\n"
        "s.shapes.title.text = 'T'\n"
        "b = s.shapes.add_textbox(Inches(1), Inches(2), Inches(8), Inches(1)).text_frame\n"
        "r = b.paragraphs[0].add_run(); r.text = 'x'; r.font.size = Pt(18)\n"
        "r.font.color.rgb = RGBColor(0x1F, 0x4E, 0x79); p.save('a.pptx')",
        "a.pptx",
        "a colour that was never set has no .rgb to read",
    ),
    Idiom(
        "ReportLab",
        "from reportlab.lib.pagesizes import A4; from reportlab.pdfgen import canvas\n"
        "c = canvas.Canvas('a.pdf', pagesize=A4); c.setFont('Helvetica', 12)\n"
        "c.drawString(72, A4[1] - 72, 'x'); c.drawCentredString(A4[0] / 2, 72, 'y')\n"
        "c.showPage(); c.save()",
        "a.pdf",
        "y grows upwards; the canvas does not wrap text",
    ),
    Idiom(
        "python-docx",
        "from docx import Document; from docx.shared import Pt, RGBColor\n"
        "d = Document(); d.add_heading('T', level=1); r = d.add_paragraph().add_run('x')\n"
        "r.font.size = Pt(11); r.font.color.rgb = RGBColor(0x1F, 0x4E, 0x79)\n"
        "t = d.add_table(rows=1, cols=2); t.style = 'Table Grid'; t.cell(0, 0).text = 'a'\n"
        "d.save('a.docx')",
        "a.docx",
        "style names are those of the template",
    ),
    Idiom(
        "openpyxl",
        "from openpyxl import Workbook; from openpyxl.styles import Font, PatternFill\n"
        "w = Workbook(); s = w.active; s.title = 'S'; s.append(['a', 1]); s['B2'] = '=SUM(B1:B1)'\n"
        "s['A1'].font = Font(bold=True); s['A1'].fill = PatternFill('solid', fgColor='DDEBF7')\n"
        "s.column_dimensions['A'].width = 20; w.save('a.xlsx')",
        "a.xlsx",
        "styles are replaced, never changed in place",
    ),
    Idiom(
        "Matplotlib",
        "import matplotlib.pyplot as plt\n"
        "f, a = plt.subplots(figsize=(6, 4), layout='constrained')\n"
        "a.plot([1, 2], [3, 4], label='x'); a.set_title('T'); a.set_xlabel('t'); a.legend()\n"
        "f.savefig('a.png', dpi=150); plt.close(f)",
        "a.png",
        "there is no screen: save, never show",
    ),
)


def told() -> str:
    """Return the idioms as they are told to a model."""
    return "\n".join(f"{one.library} ({one.beware}):\n{one.program}" for one in IDIOMS)
