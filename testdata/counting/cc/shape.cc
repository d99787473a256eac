#include "shape.h"

int Shape::count_ = 0;

double total(const std::vector<std::unique_ptr<Shape>> &shapes)
{
	double sum = 0;
	for (const auto &s : shapes) {
		if (auto circle = dynamic_cast<const Circle *>(s.get()); circle && circle->radius() > 10)
			continue;
		sum += s->area();
	}
	Box<double> box{sum};
	return box.doubled() / 2;
}
